"""YAML document that is edited as plain data; unchanged lines remain identical.

The caller changes `root` like any dictionary. `render` compares it with the original content and edits the text at each
difference: it replaces values, and inserts or deletes the lines of items. Therefore, comments, order, quotes, spacing
and line endings are preserved elsewhere. The result is parsed again, and rejected if it differs from `root`.

ruamel.yaml is not used because it preserves comments, but writes the whole document in a different layout.
"""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from accelkit.errors import ConfigurationError
from accelkit.scheduler.configuration.text_edits import TextEdits
from accelkit.scheduler.configuration.yaml_layout import Layout, YamlNode, read_comments, read_layout
from accelkit.yaml import load_yaml


class Document:
    """One YAML mapping, which is edited through `root`.

    Args:
        text: the document.
        what: the name of the document in errors, for example `the manifest /etc/…`.

    Raises:
        ConfigurationError: the text is not valid YAML, contains several documents, or is not a mapping.
    """

    def __init__(self, text: str, what: str) -> None:
        self._what = what
        self._source = text
        try:
            root = load_yaml(text)
        except YAMLError as exc:
            raise ConfigurationError(f"{what} is not a single YAML document: {' '.join(str(exc).split())}") from exc
        except ValueError as exc:
            raise ConfigurationError(f"cannot read {what} as YAML: {exc}") from exc
        if not isinstance(root, dict):
            raise ConfigurationError(f"{what} is not a mapping")
        self.root: dict[str, Any] = root
        self._original = copy.deepcopy(root)

    def render(self) -> str:
        """Return the text of the document with the changes in `root`; the original text if there are no changes.

        Raises:
            ConfigurationError: a change affects a value that an alias or merge shares, or lines that cannot be edited.
        """
        if self.root == self._original:
            return self._source
        try:
            result = _Edit(self._source, read_layout(self._source)).apply(self._original, self.root)
            if load_yaml(result) == self.root:
                return result
        except _SharedError as exc:
            raise ConfigurationError(
                f"cannot edit {self._what}: the part to change uses a YAML alias",
                next_step="write the value instead of the alias",
            ) from exc
        except (YAMLError, ValueError):
            # The layout is not supported. The error is raised below.
            pass
        raise ConfigurationError(
            f"cannot edit {self._what} safely: its layout is not supported",
            next_step="write it in plain block style, without aliases",
        )

    @property
    def comments(self) -> list[str]:
        """The sorted comments of the original text."""
        return read_comments(self._source)


class _SharedError(Exception):
    """A value that must change is used in more than one place."""


class _Edit:
    """Edit to a text. Methods raise ValueError if the lines of the text cannot be edited."""

    def __init__(self, text: str, layout: Layout) -> None:
        self._text = text
        self._layout = layout
        self._edits = TextEdits(text)
        self._offset = next(self._list_offsets(layout.root), 0)

    def apply(self, old: dict[str, Any], new: dict[str, Any]) -> str:
        """Return the text, changed so that it contains `new` instead of `old`."""
        self._change(self._layout.root, old, new)
        return self._edits.apply()

    def _change(self, node: YamlNode, old: Any, new: Any) -> None:
        """Change a mapping that retains some of its keys, or a list that is not empty before and after the change."""
        self._check_unshared(node)
        if isinstance(new, dict):
            self._change_mapping(node, old, new)
        else:
            self._change_sequence(node, old, new)

    def _check_unshared(self, node: YamlNode) -> None:
        if node.kind == "alias" or node.anchor in self._layout.aliased:
            raise _SharedError

    def _change_mapping(self, node: YamlNode, old: dict[str, Any], new: dict[str, Any]) -> None:
        places = {key.name: at for at, (key, _) in enumerate(node.pairs)}
        changed = [key for key in old if key not in new or old[key] != new[key]]
        if not all(key in places for key in changed):
            # A key that is missing here is from a YAML merge.
            raise _SharedError
        gone = [places[key] for key in changed if key not in new]
        added = {key: value for key, value in new.items() if key not in old}
        for key in changed:
            if key in new:
                self._change_value(node, places[key], old[key], new[key])
        if node.flow:
            spans = [(key.start, value.end) for key, value in node.pairs]
            words = ", ".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in added.items())
            self._edits.change_list(spans, gone, {len(spans): words} if added else {})
            return
        for at in gone:
            self._delete_pair(node, at)
        # A comment after the last value of a document belongs to that value.
        end = self._layout.end if node is self._layout.root else self._edits.find_line_end(node.end)
        lines = [line for key, value in added.items() for line in self._pair_lines(key, value)]
        self._edits.insert_lines(end, lines, self._edits.find_column(node.pairs[0][0].start))

    def _change_value(self, parent: YamlNode, at: int, old: Any, new: Any) -> None:
        key, value = parent.pairs[at]
        if _has_common_parts(old, new):
            self._change(value, old, new)
            return
        self._check_unshared(value)
        if parent.flow:
            self._edits.replace(value.start, value.end, json.dumps(new))
            return
        lines = self._block_lines(new)
        words = "" if lines else _inline(new)
        if (value.pairs or value.items) and not value.flow:
            start = end = self._text.index(":", key.end) + 1
            self._edits.replace(self._edits.find_line_end(start), self._edits.find_line_end(value.end), "")
        else:
            start, end = len(self._text[: value.start].rstrip(" \t")), value.end
        self._edits.replace(start, end, words and f" {words}")
        self._edits.insert_lines(self._edits.find_line_end(value.end), lines, self._edits.find_column(key.start))

    def _change_sequence(self, node: YamlNode, old: list[Any], new: list[Any]) -> None:
        gone: list[int] = []
        added: dict[int, list[Any]] = {}
        for start, stop, first, last in _differences(old, new):
            # Items are replaced if possible, because a comment belongs to the item that precedes it.
            both = min(stop - start, last - first)
            for index in range(both):
                self._change_item(node, start + index, old[start + index], new[first + index])
            gone += range(start + both, stop)
            if first + both < last:
                added[stop] = new[first + both : last]
        if node.flow:
            spans = [(item.start, item.end) for item in node.items]
            self._edits.change_list(spans, gone, {at: json.dumps(values)[1:-1] for at, values in added.items()})
            return
        for at in gone:
            self._delete_item(node, at)
        for at, values in added.items():
            place = self._edits.find_line_end(node.items[at - 1].end) if at else self._item_start(node.items[0])
            self._insert_items(node, place, values)

    def _change_item(self, node: YamlNode, at: int, old: Any, new: Any) -> None:
        item = node.items[at]
        if _has_common_parts(old, new):
            self._change(item, old, new)
        elif node.flow or (item.kind == "scalar" and item.start < item.end and not isinstance(new, dict | list)):
            self._check_unshared(item)
            self._edits.replace(item.start, item.end, json.dumps(new) if node.flow else _inline(new))
        else:
            self._delete_item(node, at)
            self._insert_items(node, self._item_start(item), [new])

    def _delete_item(self, node: YamlNode, at: int) -> None:
        item = node.items[at]
        self._edits.replace(self._item_start(item), self._edits.find_line_end(item.end), "")

    def _insert_items(self, node: YamlNode, place: int, values: Sequence[Any]) -> None:
        first = node.items[0]
        dash = self._dash(first)
        beside = self._edits.find_line_start(dash) == self._edits.find_line_start(first.start)
        width = first.start - dash if beside and first.end > first.start else 2
        for value in values:
            head, *rest = _rendered(value)
            lines = ["-" + " " * (width - 1) + head, *(" " * width + line for line in rest)]
            self._edits.insert_lines(place, lines, self._edits.find_column(dash))

    def _item_start(self, item: YamlNode) -> int:
        """Return the start of the first line of an item."""
        dash = self._dash(item)
        start = self._edits.find_line_start(dash)
        if self._text[start:dash].strip():
            raise ValueError("the item's dash does not begin its line")
        return start

    def _dash(self, item: YamlNode) -> int:
        """Return the offset of an item's dash. Comments may follow the dash before the item."""
        start, end = self._edits.find_line_start(item.start), item.start
        while (head := self._text[start:end].split("#")[0].rstrip()) == "" and start:
            start, end = self._edits.find_line_start(start - 1), start
        if not head.endswith("-"):
            raise ValueError("the item's dash is not found")
        return start + len(head) - 1

    def _delete_pair(self, node: YamlNode, at: int) -> None:
        key, value = node.pairs[at]
        start = self._edits.find_line_start(key.start)
        if not self._text[start : key.start].strip():
            self._edits.replace(start, self._edits.find_line_end(value.end), "")
            return
        # The key follows a dash, so the next key moves to its position, or follows comments that remain.
        following = node.pairs[at + 1][0].start if at + 1 < len(node.pairs) else key.start
        behind = self._edits.find_line_end(value.end)
        if "#" in self._text[behind:following]:
            self._edits.replace(key.start, behind, self._edits.newline)
        else:
            self._edits.replace(key.start, following, "")

    def _pair_lines(self, key: str, value: Any) -> list[str]:
        lines = self._block_lines(value)
        return [f"{_inline(key)}:", *lines] if lines else [f"{_inline(key)}: {_inline(value)}"]

    def _block_lines(self, value: Any) -> list[str]:
        """Return the lines of a value below its key; empty if the value is on the same line as the key."""
        if not isinstance(value, dict | list) or not value:
            return []
        indent = " " * (self._offset if isinstance(value, list) else 2)
        return [indent + line for line in _rendered(value)]

    def _list_offsets(self, node: YamlNode) -> Iterator[int]:
        """Yield, for each list in the document, the indentation of the list relative to its key."""
        for key, value in node.pairs:
            if value.items and not value.flow:
                yield max(self._edits.find_column(self._dash(value.items[0])) - self._edits.find_column(key.start), 0)
            yield from self._list_offsets(value)
        for item in node.items:
            yield from self._list_offsets(item)


def _has_common_parts(old: Any, new: Any) -> bool:
    if isinstance(old, dict) and isinstance(new, dict):
        return bool(old.keys() & new.keys())
    return isinstance(old, list) and isinstance(new, list) and bool(old) and bool(new)


def _differences(old: Sequence[Any], new: Sequence[Any]) -> Iterator[tuple[int, int, int, int]]:
    """Yield the replaced ranges: start and end in the old list, and start and end in the new list."""
    words = [[json.dumps(item, sort_keys=True, default=str) for item in items] for items in (old, new)]
    for tag, *places in SequenceMatcher(None, words[0], words[1], autojunk=False).get_opcodes():
        if tag != "equal":
            start, stop, first, last = places
            yield start, stop, first, last


def _inline(value: Any) -> str:
    """Return a scalar, or an empty mapping or list, as it is written on the line of its key."""
    lines = _rendered(value)
    return lines[0] if len(lines) == 1 else json.dumps(value)


def _rendered(value: Any) -> list[str]:
    """Return the lines of a value in block style."""
    if value is None:
        return ["null"]
    yaml = YAML()
    yaml.indent(mapping=2, sequence=2, offset=0)
    yaml.width = 4096
    stream = io.StringIO()
    yaml.dump([value], stream)
    return [line[2:] for line in stream.getvalue().splitlines()]
