import json

import pytest
from strict_types import violations

from accelkit.errors import ConfigurationError
from accelkit.scheduler.configuration.extender_entry import ExtenderEntry
from accelkit.scheduler.configuration.legacy_policy import add_extender_to_policy

OURS = ExtenderEntry(url_prefix="https://10.96.0.7:32766", enable_https=True)
YAML_POLICY = "kind: Policy\napiVersion: v1\n# ranking\npriorities:\n- name: LeastRequestedPriority\n  weight: 1\n"


def merged(text):
    return json.loads(add_extender_to_policy(text, OURS))


def test_extender_is_merged_into_yaml_policy():
    policy = merged(YAML_POLICY)
    assert policy["priorities"] == [{"name": "LeastRequestedPriority", "weight": 1}]
    assert violations(policy, 22) == []


def test_own_policy_entry_is_updated_and_placed_after_foreign_entries():
    other = {"urlPrefix": "http://other", "filterVerb": "f"}
    old = ExtenderEntry(url_prefix="http://old").build_legacy_entry()
    policy = merged(json.dumps({"kind": "Policy", "apiVersion": "v1", "Extenders": [old, other]}))
    assert policy["Extenders"] == [other, OURS.build_legacy_entry()]
    assert "extenders" not in policy


def test_foreign_extender_that_binds_is_refused_for_any_key_spelling():
    with pytest.raises(ConfigurationError, match="http://other already binds pods"):
        merged('{"kind": "Policy", "extenders": [{"urlprefix": "http://other", "BindVerb": "b"}]}')


@pytest.mark.parametrize("text", ["[", "[]", '{"kind": "Pod"}', '{"extenders": 1}', '{"extenders": [1]}'])
def test_invalid_policy_is_refused(text):
    with pytest.raises(ConfigurationError, match="Policy"):
        merged(text)
