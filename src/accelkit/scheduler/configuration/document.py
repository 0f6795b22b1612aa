"""A YAML document that keeps its comments, order and quotes through an edit, and the bytes of all other lines.

The edit is made on ruamel.yaml's round-trip tree. What it changes in ruamel.yaml's own layout of the document is then
done to the lines of the text as it is, so that even what ruamel.yaml does not keep stays: `null`, spacing, comments
above the document. Where lines do not match, the document is written in ruamel.yaml's layout. Either is read back.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import YAMLError
from ruamel.yaml.tokens import AliasToken

from accelkit.errors import ConfigurationError

_LIST: Final = re.compile(r"^(?P<key> *(?:- +)?)[^\s#'\"-][^\n]*:[ ]*\n(?P<dash> *)-(?P<gap> +)\S", re.MULTILINE)


class Document:
    """One YAML mapping, read for an edit of `root`.

    Args:
        text: the document.
        what: what it is, for errors: `the manifest /etc/…`.

    Raises:
        ConfigurationError: not YAML, several documents, no mapping.
    """

    def __init__(self, text: str, what: str) -> None:
        self._what = what
        self._source = text
        self._plain = text.replace("\r\n", "\n").removeprefix("\ufeff")
        self._yaml = _yaml(self._plain)
        try:
            self._has_aliases = any(isinstance(token, AliasToken) for token in YAML(pure=True).scan(self._plain))
            root = self._yaml.load(self._plain)
        except YAMLError as exc:
            raise ConfigurationError(f"{what} is not one YAML document: {' '.join(str(exc).split())}") from exc
        except ValueError as exc:
            raise ConfigurationError(f"{what} cannot be read as YAML: {exc}") from exc
        if not isinstance(root, CommentedMap):
            raise ConfigurationError(f"{what} holds no mapping")
        self.root: CommentedMap = root
        self._original = plain_data(root)

    def text(self) -> str:
        """Return the document as it is now; the very text it was read from where nothing changed.

        Raises:
            ConfigurationError: it cannot be written so that it reads back the same.
        """
        wanted = plain_data(self.root)
        if wanted == self._original:
            return self._source
        written = self.rewritten()
        before = _dumped(self._yaml, _yaml(self._plain).load(self._plain))
        for candidate in (_patched(self._source, before, written), written):
            if candidate is not None and _reads_as(candidate, wanted):
                return candidate
        raise ConfigurationError(
            f"{self._what} cannot be edited safely", next_step="write it in plain block style, without aliases"
        )

    def rewritten(self) -> str:
        """Return the document in ruamel.yaml's layout, changed or not."""
        return _dumped(self._yaml, self.root)

    def check_unshared(self, *places: object) -> None:
        """Refuse to edit what the document reaches by an alias or merge, since that would change more than one place.

        Raises:
            ConfigurationError: one of `places` is such.
        """
        if not self._has_aliases:
            return
        counts: dict[int, int] = {}
        _count(self.root, counts)
        for place in places:
            if counts.get(id(place), 0) > 1 or getattr(place, "merge", None):
                raise ConfigurationError(
                    f"{self._what} uses a YAML alias where it would have to be edited",
                    next_step="write the aliased part out",
                )


def assign(items: CommentedSeq, wanted: Sequence[str]) -> None:
    """Make a list of words `wanted`, touching only the items that differ."""
    matcher = SequenceMatcher(None, list(items), list(wanted), autojunk=False)
    for tag, start, stop, from_, to in reversed(matcher.get_opcodes()):
        if tag == "equal":
            continue
        # Written over where it can be, since a comment belongs to the item that it follows.
        kept = min(stop - start, to - from_)
        for index in range(kept):
            items[start + index] = wanted[from_ + index]
        for index in range(stop - 1, start + kept - 1, -1):
            del items[index]
        for index in range(kept, to - from_):
            items.insert(start + index, wanted[from_ + index])


def plain_data(value: Any) -> Any:
    """Return the mappings, lists and scalars of a document without what ruamel.yaml keeps beside them."""
    if isinstance(value, dict):
        return {plain_data(key): plain_data(each) for key, each in value.items()}
    if isinstance(value, list):
        return [plain_data(each) for each in value]
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return value


def _patched(source: str, before: str, after: str) -> str | None:
    """Do to the lines of `source` what leads from `before` to `after`; None where they do not match."""
    newline = "\r\n" if "\r\n" in source else "\n"
    lines = source.splitlines(keepends=True)
    old, new = before.splitlines(), after.splitlines()
    same = SequenceMatcher(None, old, [line.rstrip("\r\n") for line in lines], autojunk=False).get_matching_blocks()
    place = {block.a + i: block.b + i for block in same for i in range(block.size)}
    for tag, start, stop, from_, to in reversed(SequenceMatcher(None, old, new, autojunk=False).get_opcodes()):
        if tag == "equal":
            continue
        touched = [place.get(index) for index in range(start, stop)]
        behind = place[start - 1] + 1 if start - 1 in place else place.get(start)
        first = touched[0] if touched else behind
        if first is None or touched != list(range(first, first + len(touched))):
            return None
        if first and not lines[first - 1].endswith("\n"):
            lines[first - 1] += newline
        lines[first : first + len(touched)] = [line + newline for line in new[from_:to]]
    return "".join(lines)


def _reads_as(text: str, wanted: Any) -> bool:
    try:
        return bool(YAML(typ="safe", pure=True).load(text) == wanted)
    except YAMLError:
        return False


def _yaml(plain: str) -> YAML:
    """Return a round-trip dumper that indents lists as the text does."""
    yaml = YAML()
    offset, gap = 0, 1
    if match := _LIST.search(plain):
        offset, gap = max(len(match["dash"]) - len(match["key"]), 0), len(match["gap"])
    yaml.indent(mapping=2, sequence=offset + 1 + gap, offset=offset)
    yaml.width = 4096
    yaml.preserve_quotes = True
    first = next((line for line in plain.splitlines() if line.strip() and not line.startswith("#")), "")
    yaml.explicit_start = first.startswith("---")
    return yaml


def _dumped(yaml: YAML, root: object) -> str:
    stream = io.StringIO()
    yaml.dump(root, stream)
    return stream.getvalue()


def _count(value: object, counts: dict[int, int]) -> None:
    if isinstance(value, dict | list):
        counts[id(value)] = counts.get(id(value), 0) + 1
        for child in value.values() if isinstance(value, dict) else value:
            _count(child, counts)
