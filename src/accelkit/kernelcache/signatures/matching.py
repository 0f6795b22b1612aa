"""Matching of texts that a policy names: exactly, by anchored regular expression, or by a star."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import re2

from accelkit.errors import ConfigurationError
from accelkit.kernelcache.oci.reference import DOCKER_HUB

MAX_PATTERN_LENGTH = 1024
MAX_TEXT_LENGTH = 4096
_MAX_PATTERN_MEMORY = 1 << 20
# Nobody's policy means both of these, so a pattern that matches them means everybody.
_PROBES = ("https://one.example/a?b#c", "two@other.example")


@dataclass(frozen=True)
class TextMatch:
    """Matches one text, or the texts that a regular expression describes from begin to end.

    Expressions are RE2's: they take linear time whatever they are. Unlike cosign's they are anchored, so
    `https://github.com/acme/.*` does not match `https://evil.example/https://github.com/acme/x`.
    """

    exact: str = ""
    pattern: str = ""

    def matches(self, text: str) -> bool:
        """Whether a text is one of those meant. Beyond 4096 characters, or with unprintable ones, none is."""
        if len(text) > MAX_TEXT_LENGTH or not text.isprintable():
            return False
        if self.pattern:
            return _compile(self.pattern).fullmatch(text) is not None
        return text == self.exact

    def __str__(self) -> str:
        return f"/{self.pattern}/" if self.pattern else self.exact


def parse_text_match(exact: str, pattern: str, what: str) -> TextMatch | None:
    """Read the two fields of a policy that name a text; None where neither is given.

    Raises:
        ConfigurationError: both are given, or the expression is wrong, too long, or would match everybody.
    """
    if exact and pattern:
        raise ConfigurationError(f"{what} is given exactly and as a pattern; give one of them")
    if not exact and not pattern:
        return None
    if len(exact) > MAX_TEXT_LENGTH or len(pattern) > MAX_PATTERN_LENGTH:
        raise ConfigurationError(f"{what} is longer than {MAX_PATTERN_LENGTH} characters as a pattern allows")
    if pattern:
        compiled = _compile(pattern, what)
        if all(compiled.fullmatch(probe) for probe in _PROBES):
            raise ConfigurationError(
                f"{what} has the pattern {pattern!r}, which anybody's matches",
                next_step="name who may sign, such as https://github\\.com/your-organisation/.*",
            )
    return TextMatch(exact, pattern)


def _compile(pattern: str, what: str = "a policy") -> Any:
    options = re2.Options()
    options.max_mem = _MAX_PATTERN_MEMORY
    options.log_errors = False
    options.never_nl = False
    try:
        return re2.compile(pattern, options)
    except re2.error as exc:
        message = exc.args[0].decode() if exc.args and isinstance(exc.args[0], bytes) else str(exc)
        raise ConfigurationError(f"{what} has the pattern {pattern!r}, which cannot be used: {message}") from exc


def parse_image_pattern(text: str, where: str) -> str:
    """Read a pattern for names of images, and write it as names are written: `docker.io/nginx` lacks its `library/`.

    A pattern that no name can match is refused: it would make a policy that asks for nothing.

    Raises:
        ConfigurationError: it names no registry, or something beside registry and repository.
    """
    if text == "**":
        return text
    host, slash, repository = text.partition("/")
    if not ({"*", ".", ":"} & set(host) or host == "localhost"):
        raise ConfigurationError(
            f"{where} has the image {text!r} without its registry",
            next_step=f"write docker.io/{text} if Docker Hub is meant",
        )
    if not slash or not repository.strip("/") or repository.endswith("/"):
        raise ConfigurationError(f"{where} has the image {text!r} without a repository; end it with ** for all of them")
    if {"@", ":"} & set(repository) or repository != repository.lower():
        raise ConfigurationError(
            f"{where} has the image {text!r}; it is a repository in lower case, without tag or digest"
        )
    host = {"index.docker.io": DOCKER_HUB}.get(host.lower(), host.lower())
    if host == DOCKER_HUB and "/" not in repository and "**" not in repository:
        repository = f"library/{repository}"
    return f"{host}/{repository}"


def compile_glob(pattern: str) -> Any:
    """Compile a name with stars: `*` stands for part of one path component, `**` for any number of them."""
    stars = {"**": "(?s:.*)", "*": "[^/]*"}
    return _compile("".join(stars.get(part) or re2.escape(part) for part in re.split(r"(\*\*|\*)", pattern)))
