"""A YAML document that keeps its comments, order and quotes through an edit, and its layout where that is regular."""

from __future__ import annotations

import io
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import YAMLError
from ruamel.yaml.tokens import AliasToken

from accelkit.errors import ConfigurationError

# Spaces of a nested mapping, of a list item's content and before its dash; kubeadm's first.
_LAYOUTS: Final = ((2, 2, 0), (2, 4, 2), (4, 4, 0), (4, 4, 2), (4, 2, 0), (4, 6, 4), (2, 3, 1), (4, 6, 2), (3, 3, 0))


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
        self._newline = "\r\n" if "\r\n" in text else "\n"
        self._source = text
        plain = text.replace("\r\n", "\n").removeprefix("\ufeff")
        try:
            self.original = YAML(typ="safe", pure=True).load(plain)
            self._has_aliases = any(isinstance(token, AliasToken) for token in YAML(pure=True).scan(plain))
            self._yaml, self.root = self._loaded(plain)
        except YAMLError as exc:
            reason = " ".join(str(exc).split())
            raise ConfigurationError(f"{what} is not one YAML document: {reason}") from exc
        except ValueError as exc:
            raise ConfigurationError(f"{what} cannot be read as YAML: {exc}") from exc

    def _loaded(self, plain: str) -> tuple[YAML, CommentedMap]:
        best: tuple[float, YAML, Any] | None = None
        for layout in _LAYOUTS:
            yaml = _yaml(layout, explicit_start=_starts_explicitly(plain))
            root = yaml.load(plain)
            if not isinstance(root, CommentedMap):
                raise ConfigurationError(f"{self._what} holds no mapping")
            written = _dumped(yaml, root)
            if written == plain:
                return yaml, root
            alike = SequenceMatcher(None, written.splitlines(), plain.splitlines(), autojunk=False).ratio()
            if best is None or alike > best[0]:
                best = alike, yaml, root
        if best is None:
            raise ValueError("no layout was tried")
        return best[1], best[2]

    def text(self) -> str:
        """Return the document as it is now; the very text it was read from where nothing changed.

        Raises:
            ConfigurationError: it cannot be written so that it reads back the same.
        """
        wanted = plain_data(self.root)
        if wanted == self.original:
            return self._source
        written = self.rewritten()
        if YAML(typ="safe", pure=True).load(written) != wanted:
            raise ConfigurationError(
                f"{self._what} cannot be edited safely", next_step="write it in plain block style, without aliases"
            )
        return written

    def rewritten(self) -> str:
        """Return the document as an edit would lay it out, changed or not."""
        return _dumped(self._yaml, self.root).replace("\n", self._newline)

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
        for index in range(stop - 1, start - 1, -1):
            del items[index]
        for index, word in enumerate(wanted[from_:to]):
            items.insert(start + index, word)


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


def _yaml(layout: tuple[int, int, int], *, explicit_start: bool) -> YAML:
    yaml = YAML()
    yaml.indent(mapping=layout[0], sequence=layout[1], offset=layout[2])
    yaml.width = 4096
    yaml.preserve_quotes = True
    yaml.explicit_start = explicit_start
    return yaml


def _starts_explicitly(plain: str) -> bool:
    first = next((line for line in plain.splitlines() if line.strip() and not line.startswith("#")), "")
    return first.startswith("---")


def _dumped(yaml: YAML, root: object) -> str:
    stream = io.StringIO()
    yaml.dump(root, stream)
    return stream.getvalue()


def _count(value: object, counts: dict[int, int]) -> None:
    if isinstance(value, dict | list):
        counts[id(value)] = counts.get(id(value), 0) + 1
        for child in value.values() if isinstance(value, dict) else value:
            _count(child, counts)
