"""A clock that tests set."""

from __future__ import annotations


class Clock:
    """A clock that only `sleep` moves on; it takes the place of the modules `time` and `asyncio`.

    Called as a function, it returns the same as `monotonic`.
    """

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.monotonic()

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return 1000.0 + self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
