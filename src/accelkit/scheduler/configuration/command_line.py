"""The words by which kube-scheduler is started, read as its options and edited one option at a time.

kube-scheduler takes no positional arguments, so a word behind an option without `=` that does not start with a dash is
that option's value. Underscores in names count as dashes; of an option given twice the last one holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from accelkit.errors import ConfigurationError

PROGRAM: Final = "kube-scheduler"
# What says where the configuration is; one of them makes way for ours.
SOURCES: Final = (
    "config",
    "policy-config-file",
    "policy-configmap",
    "policy-configmap-namespace",
    "use-legacy-policy-config",
)
_OWN_FILE: Final = re.compile(r"/(?:.*/)?scheduler-[0-9a-f]{12}\.(?:yaml|json)")
_SHELLS: Final = frozenset({"sh", "bash", "dash", "ash", "busybox"})


@dataclass(frozen=True)
class Option:
    """One option: its name without dashes, its value or None, and the words that spell it."""

    name: str
    value: str | None
    words: tuple[str, ...]

    @property
    def is_ours(self) -> bool:
        """Whether it names a configuration that we wrote, which its file's name tells."""
        return self.name in SOURCES and bool(_OWN_FILE.fullmatch(self.value or ""))


@dataclass(frozen=True)
class CommandLine:
    """A list of words: those up to the program's name, then its options."""

    program: tuple[str, ...]
    options: tuple[Option, ...]

    @property
    def words(self) -> list[str]:
        """The list as written."""
        return [*self.program, *(word for option in self.options for word in option.words)]

    def without(self, drop: Callable[[Option], bool]) -> CommandLine:
        """Return it without some options."""
        return CommandLine(self.program, tuple(option for option in self.options if not drop(option)))

    def replacing(self, names: Iterable[str], name: str, value: str) -> CommandLine:
        """Return it with one option in the place of others, else at the end."""
        gone = frozenset(names)
        place = next((i for i, option in enumerate(self.options) if option.name in gone), len(self.options))
        rest = [option for option in self.options if option.name not in gone]
        rest.insert(place, Option(name, value, (f"--{name}={value}",)))
        return CommandLine(self.program, tuple(rest))

    def with_those_of(self, other: CommandLine, names: Iterable[str]) -> CommandLine:
        """Return it with the options `names` of another list, each behind the one that it follows there."""
        options = list(self.options)
        wanted = frozenset(names)
        for index, option in enumerate(other.options):
            if option.name not in wanted:
                continue
            before = other.options[:index]
            place = max((i + 1 for i, each in enumerate(options) if each in before), default=0)
            options.insert(place, option)
        return CommandLine(self.program, tuple(options))


def parse(words: Sequence[str], *, follows_program: bool = False) -> CommandLine:
    """Read a list of words.

    Args:
        words: the list.
        follows_program: whether the program stands before the list, so that all of it is options.

    Raises:
        ConfigurationError: a word that is no option stands where kube-scheduler takes none.
    """
    start = 0 if follows_program else (find_program(words) or 0) + 1
    options: list[Option] = []
    at = start
    while at < len(words):
        word = words[at]
        if not word.startswith("-"):
            raise ConfigurationError(f"kube-scheduler is given the word {word!r}, which is no option and no value")
        name, equals, value = word.partition("=")
        taken = 1
        if not equals and at + 1 < len(words) and not words[at + 1].startswith("-"):
            value, equals, taken = words[at + 1], "=", 2
        options.append(
            Option(name.lstrip("-").replace("_", "-"), value if equals else None, tuple(words[at : at + taken]))
        )
        at += taken
    return CommandLine(tuple(words[:start]), tuple(options))


def find_program(words: Sequence[str]) -> int | None:
    """Return where kube-scheduler stands among the words, also behind go-runner or hyperkube; None where it does not.

    Raises:
        ConfigurationError: a shell starts it, so the words are one script.
    """
    names = [PurePosixPath(word).name for word in words]
    if names and names[0] in _SHELLS and any(PROGRAM in word for word in words):
        raise ConfigurationError(
            "a shell script starts kube-scheduler, and scripts are not edited",
            next_step="name kube-scheduler and its options as a list in the command",
        )
    for index, name in enumerate(names):
        if name == PROGRAM or (name == "scheduler" and index and names[index - 1] == "hyperkube"):
            return index
    return None


def find_option_value(options: Iterable[Option], name: str) -> str | None:
    """Return an option's value, None where it is not given; an option without a value reads `true`."""
    found: str | None = None
    for option in options:
        if option.name == name:
            found = "true" if option.value is None else option.value
    return found
