import pytest

from accelkit.back_off import BackOff


@pytest.mark.parametrize(("failures", "seconds"), [(0, 0.5), (1, 0.5), (2, 1.0), (4, 4.0), (5, 5.0), (10**6, 5.0)])
def test_each_failure_doubles_the_wait_up_to_the_longest(failures, seconds):
    assert BackOff(0.5, 5.0).compute(failures) == seconds
