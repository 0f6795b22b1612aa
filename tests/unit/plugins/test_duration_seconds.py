import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.accelkit.kubernetes.plugins.filter import duration_seconds as plugin


@pytest.mark.parametrize(("duration", "seconds"), [("10s", 10), ("1m30s", 90), ("2.5s", 2.5), ("500ms", 0.5)])
def test_a_duration_of_go_is_seconds(duration, seconds):
    assert plugin.duration_seconds(duration) == seconds


def test_what_is_no_duration_is_an_error():
    with pytest.raises(AnsibleFilterError, match="'10' is not a valid duration"):
        plugin.duration_seconds(10)
