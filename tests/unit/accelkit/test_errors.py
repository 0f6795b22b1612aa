"""The one failure that is shown of several."""

import pytest

from accelkit.errors import ApiError, ServiceError, find_first, raise_first


def test_the_first_failure_is_found_however_deep_it_lies():
    first = ValueError("first")
    inner = ExceptionGroup("inner", [first, ValueError("second")])
    assert find_first(ExceptionGroup("outer", [inner, ValueError("third")])) is first


@pytest.mark.parametrize("failures", [[ServiceError("a")], [ServiceError("a"), ServiceError("b")]])
def test_failures_of_these_kinds_are_their_first_alone(failures):
    with pytest.raises(ServiceError, match=r"^a$"), raise_first(ServiceError):
        raise ExceptionGroup("", failures)


@pytest.mark.parametrize("failures", [[ApiError("a")], [ServiceError("a"), ApiError("b")]])
def test_where_another_kind_is_among_them_all_are_raised(failures):
    with pytest.raises(ExceptionGroup) as raised, raise_first(ServiceError):
        raise ExceptionGroup("", failures)
    assert list(raised.value.exceptions) == failures
