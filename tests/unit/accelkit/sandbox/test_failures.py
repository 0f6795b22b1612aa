"""The one failure that is shown of several."""

from __future__ import annotations

from accelkit.sandbox.failures import find_first


def test_the_first_failure_is_found_however_deep_it_lies():
    first = ValueError("first")
    inner = ExceptionGroup("inner", [first, ValueError("second")])
    assert find_first(ExceptionGroup("outer", [inner, ValueError("third")])) is first
