"""Registries as fixtures. Those of a session are shared, so each test takes a repository of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest
from registries import real
from registries.hostile import HostileRegistry
from registries.real import AbsentError, RealRegistry

_Starter = Callable[[], contextlib.AbstractContextManager[RealRegistry]]
_OPEN: dict[str, _Starter] = {
    "go-referrers": lambda: real.go(referrers=True),
    "go-fallback": lambda: real.go(referrers=False),
    "debian": real.debian,
}
_GUARDED: dict[str, _Starter] = {
    "go-basic": lambda: real.go(referrers=True, guarded=True),
    "debian-basic": lambda: real.debian(guarded=True),
    "debian-token": real.debian_with_tokens,
}


@pytest.fixture(scope="session", params=sorted(_OPEN))
def registry(request: pytest.FixtureRequest) -> Iterator[RealRegistry]:
    """Each real registry in turn, open to everybody."""
    yield from _running(_OPEN[request.param]())


@pytest.fixture(scope="session")
def referrers_registry() -> Iterator[RealRegistry]:
    """A real registry with the referrers API."""
    yield from _running(_OPEN["go-referrers"]())


@pytest.fixture(scope="session", params=sorted(_GUARDED))
def guarded_registry(request: pytest.FixtureRequest) -> Iterator[RealRegistry]:
    """Each real registry that demands credentials, in turn."""
    yield from _running(_GUARDED[request.param]())


@pytest.fixture(scope="session")
def token_registry() -> Iterator[RealRegistry]:
    """A real registry that demands tokens."""
    yield from _running(_GUARDED["debian-token"]())


@pytest.fixture
def hostile_registry() -> Iterator[HostileRegistry]:
    """A registry in this process, which misbehaves as it is told to."""
    with HostileRegistry() as registry:
        yield registry


def _running(starting: contextlib.AbstractContextManager[RealRegistry]) -> Iterator[RealRegistry]:
    with contextlib.ExitStack() as stack:
        try:
            running = stack.enter_context(starting)
        except AbsentError as why:
            pytest.skip(str(why))
        yield running
