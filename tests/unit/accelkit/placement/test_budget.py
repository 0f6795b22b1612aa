from __future__ import annotations

import pytest

from accelkit.placement.budget import Budget


@pytest.mark.parametrize(("steps", "lent"), [(100, 10), (4, 4)])
def test_what_is_spent_of_what_was_lent_is_taken_off_whatever_happens(steps, lent):
    budget = Budget(steps)
    with pytest.raises(ZeroDivisionError), budget.lend(10) as trial:
        assert trial.steps == lent
        trial.steps -= 3
        raise ZeroDivisionError
    assert budget.steps == steps - 3
