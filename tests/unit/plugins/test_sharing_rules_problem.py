import re

import pytest
from ansible_collections.accelkit.kubernetes.plugins.filter import sharing_rules_problem as plugin

RULES = {
    "quotas": [{"namespaces": ["ml"], "memory": "64GiB", "cards": 2}],
    "reservations": [{"name": "inference", "cards": [{"count": 1}], "for": [{"namespaces": ["serving"]}]}],
}


@pytest.mark.parametrize("rules", [RULES, {}, None, {"quotas": RULES["quotas"]}])
def test_valid_rules_have_no_problem(rules):
    assert plugin.sharing_rules_problem(rules) == ""


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ({"quota": []}, "unknown field `quota`"),
        ({"quotas": [{"namespaces": ["ml"], "memory": "64Gb"}]}, r"quotas\[0\]: memory: .*64GiB"),
        ({"quotas": [{"namespaces": ["ml"]}]}, r"quotas\[0\]: no limit is set"),
        ({"reservations": [{"name": "ours", "cards": [{}], "for": []}]}, r"reservations\[0\]: for is empty"),
        ({"quotas": {1, 2}}, "not JSON serializable"),
    ],
)
def test_invalid_rules_are_described(rules, told):
    problem = plugin.sharing_rules_problem(rules)
    assert problem.startswith("the sharing rules are invalid: ")
    assert re.search(told, problem)


def test_filter_works_in_playbook_with_templated_rules(play):
    message = "{{ rules | accelkit.kubernetes.sharing_rules_problem or 'all is well' }}"
    tasks = [
        {"ansible.builtin.debug": {"msg": message}, "vars": {"rules": rules}}
        for rules in (RULES, {"quotas": [{"namespaces": ["{{ 'm' ~ 'l' }}"]}]})
    ]
    said = play(tasks).stdout
    assert "all is well" in said
    assert "quotas[0]: no limit is set" in said
