from __future__ import annotations

import pytest

from accelkit.placement.budget import Budget


@pytest.mark.parametrize(("steps", "lent"), [(100, 10), (4, 4)])
def test_what_is_spent_of_what_was_lent_is_taken_off(steps, lent):
    budget = Budget(steps)
    with budget.lend(10) as trial:
        assert trial.steps == lent
        trial.steps -= 3
    assert budget.steps == steps - 3


def test_what_was_spent_before_an_error_is_taken_off_too():
    budget = Budget(9)

    def spend():
        with budget.lend(5) as lent:
            lent.steps = 0
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        spend()
    assert budget.steps == 4
