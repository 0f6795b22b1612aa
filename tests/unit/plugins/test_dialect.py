import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.accelkit.kubernetes.plugins.filter import dialect as plugin

from accelkit.vendors.dialects import list_dialect_names, load_dialect


@pytest.mark.parametrize("name", list_dialect_names())
def test_a_dialect_is_told_as_its_file_has_it(name):
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


def test_an_unknown_dialect_is_an_error_that_names_the_known_ones():
    with pytest.raises(AnsibleFilterError, match=r"unknown dialect 'klingon'.*gcushare"):
        plugin.dialect("klingon")


def test_playbooks_use_it_in_check_mode(play):
    message = "{{ ['gcushare', 'native'] | map('accelkit.kubernetes.dialect') | map(attribute='resources') | flatten }}"
    done = play([{"ansible.builtin.debug": {"msg": message}}], "--check")
    assert done.returncode == 0, done.stdout + done.stderr
    for resource in ("enflame.com/gcu-memory", "accelkit.io/cards"):
        assert resource in done.stdout


def test_who_only_watches_cards_is_guarded_too():
    found = plugin.dialect("gas")
    assert {"gpu.intel.com/i915", "gpu.intel.com/i915_monitoring", "gpu.intel.com/xe_monitoring"} <= {*found["guarded"]}
    assert "gpu.intel.com/i915_monitoring" not in found["resources"]


@pytest.mark.parametrize(("name", "listed"), [("aliyun", True), ("gcushare", False), ("native", False)])
def test_whether_bad_cards_are_listed_is_reported(name, listed):
    assert plugin.dialect(name)["unhealthy_cards"] is listed
