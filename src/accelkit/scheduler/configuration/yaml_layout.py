"""Positions of the values of a YAML document in its text, as a tree of nodes with offsets, and its comments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ruamel.yaml import YAML
from ruamel.yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

_COMMENT: Final = re.compile(r"#.*")


@dataclass(kw_only=True)
class YamlNode:
    """A scalar, a mapping, a sequence, or an alias of one of these.

    Attributes:
        kind: the kind of node.
        start: the offset of the node's first character; an anchor belongs to the node.
        end: the offset after the node's last character; blank lines and comments after the node do not belong to it.
        name: the text of a scalar, which identifies the keys of a mapping.
        flow: whether the node is written in braces or brackets.
        anchor: the node's anchor, or the anchor that an alias refers to.
        pairs: the keys and values of a mapping.
        items: the items of a sequence.
    """

    kind: Literal["scalar", "mapping", "sequence", "alias"]
    start: int
    end: int
    name: str = ""
    flow: bool = False
    anchor: str | None = None
    pairs: list[tuple[YamlNode, YamlNode]] = field(default_factory=list)
    items: list[YamlNode] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Layout of a document: the root, the offset after the last line, and the anchors that aliases refer to."""

    root: YamlNode
    end: int
    aliased: frozenset[str]


def read_layout(text: str) -> Layout:
    """Return the layout of a text with one document.

    Raises:
        YAMLError: the text does not contain exactly one document.
    """
    events = list(YAML(typ="safe", pure=True).parse(text))
    ends = (event.start_mark.index for event in events if isinstance(event, DocumentEndEvent) and event.explicit)
    aliased = frozenset(str(event.anchor) for event in events if isinstance(event, AliasEvent))
    # The first two events are the start of the stream and the start of the document.
    return Layout(root=_read_node(text, events[2], iter(events[3:])), end=next(ends, len(text)), aliased=aliased)


def read_comments(text: str) -> list[str]:
    """Return the sorted comments of a document, to compare two documents regardless of positions."""
    gaps: list[str] = []
    end = 0
    for token in YAML(typ="safe", pure=True).scan(text):
        gaps.append(text[end : token.start_mark.index])
        end = token.end_mark.index
    return sorted(found.rstrip() for gap in (*gaps, text[end:]) for found in _COMMENT.findall(gap))


def _read_node(text: str, event: Any, events: Iterator[Any]) -> YamlNode:
    start, end = event.start_mark.index, event.end_mark.index
    if isinstance(event, AliasEvent):
        return YamlNode(kind="alias", start=start, end=end, anchor=event.anchor)
    if isinstance(event, ScalarEvent):
        # A block scalar extends to the next token. Blank lines at its end belong to the scalar only with `|+`.
        if event.style in {"|", ">"} and not event.value.endswith("\n\n"):
            end = start + len(text[start:end].rstrip())
        return YamlNode(kind="scalar", start=start, end=end, name=event.value, anchor=event.anchor)
    if isinstance(event, SequenceStartEvent):
        items, closed = _read_until(SequenceEndEvent, text, events)
        end = closed.end_mark.index if event.flow_style else max(item.end for item in items)
        return YamlNode(kind="sequence", start=start, end=end, flow=event.flow_style, anchor=event.anchor, items=items)
    assert isinstance(event, MappingStartEvent), event  # noqa: S101 - the parser has no other kind of node
    nodes, closed = _read_until(MappingEndEvent, text, events)
    pairs = list(zip(nodes[::2], nodes[1::2], strict=True))
    for key, value in pairs:
        if value.start == value.end:
            # The parser places an empty value at the next token.
            value.start = value.end = text.find(":", key.end) + 1 or key.end
    end = closed.end_mark.index if event.flow_style else max(value.end for _, value in pairs)
    return YamlNode(kind="mapping", start=start, end=end, flow=event.flow_style, anchor=event.anchor, pairs=pairs)


def _read_until(last: type, text: str, events: Iterator[Any]) -> tuple[list[YamlNode], Any]:
    """Return the nodes up to the event that closes their parent, and that event."""
    nodes: list[YamlNode] = []
    for event in events:
        if isinstance(event, last):
            return nodes, event
        nodes.append(_read_node(text, event, events))
    raise AssertionError("the parser closes what it opens")
