import pytest

from accelkit.back_off import BackOff


@pytest.mark.parametrize(("failures", "seconds"), [(0, 0.5), (1, 0.5), (2, 1.0), (4, 4.0), (5, 5.0), (10**6, 5.0)])
def test_wait_doubles_after_each_failure_up_to_maximum(failures, seconds):
    assert BackOff(0.5, 5.0).compute(failures) == seconds
