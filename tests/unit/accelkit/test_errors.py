"""The one failure that is shown of several."""

import pytest

from accelkit.errors import ApiError, ServiceError, find_first, raise_first


def test_find_first_returns_first_failure_of_nested_groups():
    first = ValueError("first")
    inner = ExceptionGroup("inner", [first, ValueError("second")])
    assert find_first(ExceptionGroup("outer", [inner, ValueError("third")])) is first


@pytest.mark.parametrize("failures", [[ServiceError("a")], [ServiceError("a"), ServiceError("b")]])
def test_group_of_expected_errors_is_raised_as_its_first_error(failures):
    with pytest.raises(ServiceError, match=r"^a$"), raise_first(ServiceError):
        raise ExceptionGroup("", failures)


@pytest.mark.parametrize("failures", [[ApiError("a")], [ServiceError("a"), ApiError("b")]])
def test_group_with_another_error_type_is_raised_unchanged(failures):
    with pytest.raises(ExceptionGroup) as raised, raise_first(ServiceError):
        raise ExceptionGroup("", failures)
    assert list(raised.value.exceptions) == failures
