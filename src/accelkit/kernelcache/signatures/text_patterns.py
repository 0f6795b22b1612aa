"""Matching of policy values: exact values, anchored regular expressions and globs."""

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
# No useful pattern matches both texts, so a pattern that matches them is assumed to match any identity.
_PROBES = ("https://one.example/a?b#c", "two@other.example")


@dataclass(frozen=True)
class TextMatch:
    """A condition for a text: an exact value, or a regular expression that must match the entire text.

    The expressions use the syntax of RE2, which matches in linear time. Unlike in cosign, the expressions are anchored,
    so `https://github.com/acme/.*` does not match `https://evil.example/https://github.com/acme/x`.
    """

    exact: str = ""
    pattern: str = ""

    def matches(self, text: str) -> bool:
        """Return whether a text matches. Texts over 4096 characters or with unprintable characters never match."""
        if len(text) > MAX_TEXT_LENGTH or not text.isprintable():
            return False
        if self.pattern:
            return _compile(self.pattern).fullmatch(text) is not None
        return text == self.exact

    def __str__(self) -> str:
        return f"/{self.pattern}/" if self.pattern else self.exact


def parse_text_match(exact: str, pattern: str, what: str) -> TextMatch | None:
    """Return the condition from the policy fields for an exact value and for a pattern; None if both are empty.

    Raises:
        ConfigurationError: both fields are set, or the expression is invalid, too long, or matches any identity.
    """
    if exact and pattern:
        raise ConfigurationError(f"{what} is set both exactly and as a pattern; set only one of them")
    if not exact and not pattern:
        return None
    if len(exact) > MAX_TEXT_LENGTH or len(pattern) > MAX_PATTERN_LENGTH:
        raise ConfigurationError(
            f"{what} is longer than {MAX_TEXT_LENGTH} characters, or {MAX_PATTERN_LENGTH} characters as a pattern"
        )
    if pattern:
        compiled = _compile(pattern, what)
        if all(compiled.fullmatch(probe) for probe in _PROBES):
            raise ConfigurationError(
                f"{what} has the pattern {pattern!r}, which matches any identity",
                next_step="specify the signers, such as https://github\\.com/your-organisation/.*",
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
        raise ConfigurationError(f"{what} has the pattern {pattern!r}, which is invalid: {message}") from exc


def parse_image_pattern(text: str, where: str) -> str:
    """Return an image name pattern in normalized form, for example with `library/` for `docker.io/nginx`.

    A pattern that no name can match is rejected, because the policy would then have no effect.

    Raises:
        ConfigurationError: the pattern does not contain a registry, or contains components other than a registry and a
            repository.
    """
    if text == "**":
        return text
    host, slash, repository = text.partition("/")
    if not ({"*", ".", ":"} & set(host) or host == "localhost"):
        raise ConfigurationError(
            f"{where} has the image {text!r} without a registry",
            next_step=f"write docker.io/{text} if you mean Docker Hub",
        )
    if not slash or not repository.strip("/") or repository.endswith("/"):
        raise ConfigurationError(f"{where} has the image {text!r} without a repository; end it with ** for all of them")
    if {"@", ":"} & set(repository) or repository != repository.lower():
        raise ConfigurationError(
            f"{where} has the image {text!r}; it must be a repository in lower case, without tag or digest"
        )
    host = {"index.docker.io": DOCKER_HUB}.get(host.lower(), host.lower())
    if host == DOCKER_HUB and "/" not in repository and "**" not in repository:
        repository = f"library/{repository}"
    return f"{host}/{repository}"


def compile_glob(pattern: str) -> Any:
    """Compile a glob in which `*` matches part of one path component, and `**` matches any number of components."""
    stars = {"**": "(?s:.*)", "*": "[^/]*"}
    return _compile("".join(stars.get(part) or re2.escape(part) for part in re.split(r"(\*\*|\*)", pattern)))
