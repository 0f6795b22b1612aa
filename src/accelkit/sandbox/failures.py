"""The one failure to show for a group of tasks that failed together.

A person reads one line: what failed along with the first one has the same cause, or is found the next time.
"""

from __future__ import annotations

__all__ = ["find_first"]


def find_first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first exception of a group, however deep it lies."""
    first = failures.exceptions[0]
    return find_first(first) if isinstance(first, BaseExceptionGroup) else first
