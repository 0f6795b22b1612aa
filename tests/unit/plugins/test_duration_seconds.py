import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.accelkit.kubernetes.plugins.filter import duration_seconds as plugin


@pytest.mark.parametrize(("duration", "seconds"), [("10s", 10), ("1m30s", 90), ("2.5s", 2.5), ("500ms", 0.5)])
def test_go_duration_is_converted_to_seconds(duration, seconds):
    assert plugin.duration_seconds(duration) == seconds


def test_invalid_duration_raises_filter_error():
    with pytest.raises(AnsibleFilterError, match="'10' is not a valid duration"):
        plugin.duration_seconds(10)
