"""Edits to a text at given offsets, which are collected and then applied together."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence


class TextEdits:
    """Collector of edits to one text. Inserted lines get the line endings of the text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.newline = "\r\n" if "\r\n" in text else "\n"
        self._edits: list[tuple[int, int, str, bool]] = []

    def find_line_start(self, at: int) -> int:
        """Return the start of the line that contains an offset, after the byte order mark if there is one."""
        start = self._text.rfind("\n", 0, at) + 1
        return start + self._text.startswith("\ufeff", start, at)

    def find_line_end(self, at: int) -> int:
        """Return the offset after the newline of the line that contains an offset."""
        return self._text.find("\n", at) + 1 or len(self._text)

    def find_column(self, at: int) -> int:
        """Return the distance of an offset from the start of its line."""
        return at - self.find_line_start(at)

    def replace(self, start: int, end: int, words: str) -> None:
        """Replace the text between two offsets; insert the words if the offsets are equal."""
        self._edits.append((start, end, words, False))

    def insert_lines(self, at: int, lines: Sequence[str], column: int) -> None:
        """Insert lines at the start of a line, or at the end of the text."""
        block = "".join((" " * column + line).rstrip() + self.newline for line in lines)
        self._edits.append((at, at, block, bool(lines)))

    def change_list(self, spans: Sequence[tuple[int, int]], gone: Collection[int], added: Mapping[int, str]) -> None:
        """Change a comma-separated list.

        Args:
            spans: the start and end of each item.
            gone: the indices of items to remove.
            added: the new strings by index; a string is inserted before the item with this index, or at the end.
        """
        if len(gone) == len(spans):
            self.replace(spans[0][0], spans[-1][1], ", ".join(added.values()))
            return
        first = min(set(range(len(spans))) - set(gone))
        for at in gone:
            if at > first:
                self.replace(spans[at - 1][1], spans[at][1], "")
            else:
                self.replace(spans[at][0], spans[at + 1][0], "")
        for at, words in added.items():
            if at:
                self.replace(spans[at - 1][1], spans[at - 1][1], f", {words}")
            else:
                self.replace(spans[0][0], spans[0][0], f"{words}, ")

    def apply(self) -> str:
        """Return the text with all edits applied.

        Raises:
            ValueError: two edits overlap.
        """
        result, done = "", 0
        for start, end, words, is_lines in sorted(self._edits, key=lambda edit: edit[:2]):
            if start < done:
                raise ValueError("two edits overlap")
            result += self._text[done:start]
            if is_lines and result and not result.endswith("\n"):
                result += self.newline
            result += words
            done = end
        return result + self._text[done:]
