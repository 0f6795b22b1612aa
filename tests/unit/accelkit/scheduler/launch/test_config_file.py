import hashlib

import pytest
from odd_manifests import CONFIGURATION
from strict_types import violations
from support.yaml import parse_yaml
from version_table import desired

from accelkit.errors import ConfigurationError
from accelkit.scheduler.launch.config_file import ConfigFile

FILE = ConfigFile("/etc/scheduler.yaml")


def planned(text, version="v1.34.4", recorded=None):
    return FILE.plan(text, recorded, lambda _: None, desired(version))


def test_own_entry_is_added_and_removed():
    plan = planned(CONFIGURATION)
    assert plan.launch_text.startswith(CONFIGURATION)
    assert violations(parse_yaml(plan.launch_text), 34) == []
    assert plan.marker == hashlib.sha256(plan.launch_text.encode()).hexdigest()
    assert planned(plan.launch_text, recorded=CONFIGURATION) == plan
    assert FILE.is_switched(plan.launch_text)
    assert FILE.unswitch(plan.launch_text, CONFIGURATION) == CONFIGURATION
    assert not FILE.is_switched(CONFIGURATION)


def test_format_unsupported_by_version_is_refused():
    with pytest.raises(ConfigurationError, match="does not accept"):
        planned(CONFIGURATION, "v1.22.0")


def test_missing_configuration_file_is_refused():
    with pytest.raises(ConfigurationError, match=r"cannot read /etc/scheduler\.yaml: it does not exist"):
        planned(None)
