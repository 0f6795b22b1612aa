"""Command line of kube-scheduler, which is parsed into options and edited one option at a time.

kube-scheduler does not accept positional arguments. If a word without a leading dash follows an option without `=`, the
word is the value of that option. Underscores in names are equivalent to dashes. If an option is repeated, the last
value applies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from accelkit.errors import ConfigurationError

PROGRAM: Final = "kube-scheduler"
# Options that specify the configuration. accelkit's option replaces one of these options.
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
    """An option, with its name without dashes, its value or None, and its original words."""

    name: str
    value: str | None
    words: tuple[str, ...]

    @property
    def is_ours(self) -> bool:
        """Whether the option refers to one of accelkit's configurations, which are identified by their file names."""
        return self.name in SOURCES and bool(_OWN_FILE.fullmatch(self.value or ""))


@dataclass(frozen=True)
class CommandLine:
    """A list of words, which consists of the words up to the program name and of the program's options."""

    program: tuple[str, ...]
    options: tuple[Option, ...]

    @property
    def words(self) -> list[str]:
        """The words of the whole command line."""
        return [*self.program, *(word for option in self.options for word in option.words)]

    def without(self, drop: Callable[[Option], bool]) -> CommandLine:
        """Return the command line without some options."""
        return CommandLine(self.program, tuple(option for option in self.options if not drop(option)))

    def replacing(self, names: Iterable[str], name: str, value: str) -> CommandLine:
        """Return the command line with one option in place of the named options, or at the end if they are missing."""
        gone = frozenset(names)
        place = next((i for i, option in enumerate(self.options) if option.name in gone), len(self.options))
        rest = [option for option in self.options if option.name not in gone]
        rest.insert(place, Option(name, value, (f"--{name}={value}",)))
        return CommandLine(self.program, tuple(rest))

    def with_those_of(self, other: CommandLine, names: Iterable[str]) -> CommandLine:
        """Insert the options `names` from another command line, each after the option that precedes it in that line."""
        options = list(self.options)
        selected = frozenset(names)
        for index, option in enumerate(other.options):
            if option.name not in selected:
                continue
            before = other.options[:index]
            place = max((i + 1 for i, each in enumerate(options) if each in before), default=0)
            options.insert(place, option)
        return CommandLine(self.program, tuple(options))


def parse(words: Sequence[str], *, follows_program: bool = False) -> CommandLine:
    """Return the parsed words.

    Args:
        words: the words.
        follows_program: whether the program name precedes the words, so that all words are options.

    Raises:
        ConfigurationError: a word is neither an option nor a value.
    """
    start = 0 if follows_program else (find_program(words) or 0) + 1
    options: list[Option] = []
    at = start
    while at < len(words):
        word = words[at]
        if not word.startswith("-"):
            raise ConfigurationError(
                f"cannot edit kube-scheduler's command line: {word!r} is neither an option nor a value"
            )
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
    """Return the index of kube-scheduler in the words; None if it is missing. The words may start with a wrapper.

    Raises:
        ConfigurationError: a shell starts kube-scheduler, so the words form a script.
    """
    names = [PurePosixPath(word).name for word in words]
    if names and names[0] in _SHELLS and any(PROGRAM in word for word in words):
        raise ConfigurationError(
            "cannot edit kube-scheduler's command line: it is part of a shell script",
            next_step="write kube-scheduler and its options as a list in the command",
        )
    for index, name in enumerate(names):
        if name == PROGRAM or (name == "scheduler" and index and names[index - 1] == "hyperkube"):
            return index
    return None


def find_option_value(options: Iterable[Option], name: str) -> str | None:
    """Return the value of an option; `true` if it has no value, and None if the option is missing."""
    found: str | None = None
    for option in options:
        if option.name == name:
            found = "true" if option.value is None else option.value
    return found
