import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.accelkit.kubernetes.plugins.filter import dialect as plugin

from accelkit.vendors.dialects import list_dialect_names, load_dialect


@pytest.mark.parametrize("name", list_dialect_names())
def test_dialect_filter_returns_fields_of_dialect_file(name):
    dialect = load_dialect(name)
    assert plugin.dialect(name) == {
        "name": name,
        "advertised": dialect.advertised,
        "resources": list(dialect.resources.requestable),
        "guarded": list(dialect.resources.with_devices),
        "annotations": list(dialect.annotations.keys) if dialect.annotations else [],
        "plugin_writes": dialect.plugin_writes,
        "log_folder": dialect.logs.folder,
        "unhealthy_cards": dialect.unhealthy_cards is not None,
    }


def test_unknown_dialect_raises_error_with_choices():
    with pytest.raises(AnsibleFilterError, match=r"unknown dialect 'klingon'.*gcushare"):
        plugin.dialect("klingon")


def test_dialect_filter_works_in_check_mode(play):
    message = "{{ ['gcushare', 'native'] | map('accelkit.kubernetes.dialect') | map(attribute='resources') | flatten }}"
    done = play([{"ansible.builtin.debug": {"msg": message}}], "--check")
    assert done.returncode == 0, done.stdout + done.stderr
    for resource in ("enflame.com/gcu-memory", "accelkit.io/cards"):
        assert resource in done.stdout


def test_guarded_resources_include_monitoring_resources():
    found = plugin.dialect("gas")
    assert {"gpu.intel.com/i915", "gpu.intel.com/i915_monitoring", "gpu.intel.com/xe_monitoring"} <= {*found["guarded"]}
    assert "gpu.intel.com/i915_monitoring" not in found["resources"]


@pytest.mark.parametrize(("name", "listed"), [("aliyun", True), ("gcushare", False), ("native", False)])
def test_unhealthy_cards_is_returned_for_each_dialect(name, listed):
    assert plugin.dialect(name)["unhealthy_cards"] is listed
