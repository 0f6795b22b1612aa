"""The `extenders:` list of a YAML text, edited by whole lines; all other lines stay as they are, byte for byte."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode

KEY: Final = "extenders"


class Splice:
    """One edit of one text.

    Args:
        text: a YAML document whose root is a block mapping.

    Raises:
        ValueError: the document is not laid out in lines that could be edited.
    """

    def __init__(self, text: str) -> None:
        root = YAML(pure=True).compose(text)
        if not isinstance(root, MappingNode) or root.flow_style:
            raise ValueError("the root is no block mapping")
        self._newline = "\r\n" if "\r\n" in text else "\n"
        self._lines = text.splitlines(keepends=True)
        self._root = root
        self._key: Node | None = None
        self._value: Node | None = None
        for key, value in root.value:
            if key.value == KEY:
                self._key, self._value = key, value

    def put(self, entry: dict[str, Any], replaced: Sequence[int]) -> str:
        """Return the text with `entry` in the place of the items `replaced`, else behind the last one."""
        if self._key is None:
            return self._append_list(entry)
        if self._is_empty():
            return self._fill_list(entry)
        items = self._items()
        block = self._block(entry, self._sequence().start_mark.column)
        if not replaced:
            return self._replace([(items[-1][1], items[-1][1], block)])
        first, *others = (items[index] for index in replaced)
        return self._replace([(*first, block), *((start, end, []) for start, end in others)])

    def take(self, removed: Sequence[int]) -> str:
        """Return the text without the items `removed`; without the whole list where none is left."""
        items = self._items()
        if len(removed) == len(items) and self._key is not None:
            return self._replace([(self._key.start_mark.line, items[-1][1], [])])
        return self._replace([(*items[index], []) for index in removed])

    def _append_list(self, entry: dict[str, Any]) -> str:
        column = self._root.start_mark.column
        end = next((i for i, line in enumerate(self._lines) if line.rstrip() == "..."), len(self._lines))
        if end and not self._lines[end - 1].endswith(("\n", "\r")):
            self._lines[end - 1] += self._newline
        offset = next((v.start_mark.column - k.start_mark.column for k, v in _block_lists(self._root)), 0)
        return self._replace(
            [(end, end, [" " * column + KEY + ":" + self._newline, *self._block(entry, column + offset)])]
        )

    def _fill_list(self, entry: dict[str, Any]) -> str:
        if self._key is None or self._value is None:
            raise ValueError("there is no list")
        start, end = self._value.start_mark, self._value.end_mark
        line = self._key.start_mark.line
        if start.line != line or end.line != line:
            raise ValueError("the empty list does not stand beside its key")
        text = self._lines[line]
        kept = (text[: start.column].rstrip() + text[end.column :]).rstrip("\r\n")
        column = self._key.start_mark.column
        return self._replace([(line, line + 1, [kept + self._newline, *self._block(entry, column)])])

    def _is_empty(self) -> bool:
        if isinstance(self._value, SequenceNode):
            return not self._value.value
        return isinstance(self._value, ScalarNode)

    def _sequence(self) -> SequenceNode:
        if not isinstance(self._value, SequenceNode) or self._value.flow_style:
            raise ValueError("the list is written in flow style")
        return self._value

    def _items(self) -> list[tuple[int, int]]:
        """Return the first line of each item and the line after its last."""
        return [(self._dash(item), self._last(item) + 1) for item in self._sequence().value]

    def _dash(self, item: Node) -> int:
        line = item.start_mark.line
        if self._lines[line][: item.start_mark.column].strip() == "-":
            return int(line)
        while line and not self._lines[line].strip().startswith("-"):
            line -= 1
        if self._lines[line].split("#")[0].strip() != "-":
            raise ValueError("the item's dash is not found")
        return int(line)

    def _last(self, item: Node) -> int:
        last = max(_ends(item))
        while last > item.start_mark.line and not self._lines[last].strip():
            last -= 1
        return last

    def _block(self, entry: dict[str, Any], column: int) -> list[str]:
        yaml = YAML()
        yaml.indent(mapping=2, sequence=2, offset=0)
        yaml.width = 4096
        stream = io.StringIO()
        yaml.dump([entry], stream)
        return [" " * column + line + self._newline for line in stream.getvalue().splitlines()]

    def _replace(self, edits: Sequence[tuple[int, int, list[str]]]) -> str:
        lines = list(self._lines)
        for start, end, new in sorted(edits, key=lambda edit: edit[0], reverse=True):
            if new and start == end and start and not lines[start - 1].endswith(("\n", "\r")):
                lines[start - 1] += self._newline
            lines[start:end] = new
        return "".join(lines)


def _ends(node: Node) -> Iterator[int]:
    yield node.start_mark.line
    if isinstance(node, CollectionNode) and not node.flow_style:
        children = [each for pair in node.value for each in pair] if isinstance(node, MappingNode) else node.value
        for child in children:
            yield from _ends(child)
    elif node.end_mark.column == 0 and node.end_mark.line > node.start_mark.line:
        # A block scalar ends where the next token starts.
        yield node.end_mark.line - 1
    else:
        yield node.end_mark.line


def _block_lists(node: MappingNode) -> Iterator[tuple[Node, SequenceNode]]:
    for key, value in node.value:
        if isinstance(value, SequenceNode) and not value.flow_style:
            yield key, value
        elif isinstance(value, MappingNode) and not value.flow_style:
            yield from _block_lists(value)
