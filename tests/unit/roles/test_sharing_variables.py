import json

from support.yaml import parse_yaml
from test_roles import container, objects

from accelkit.placement.sharing.rules import read_rules

RULES = {
    "quotas": [{"namespaces": ["ml"], "memory": "64GiB"}],
    "reservations": [{"name": 'it\'s "ours"', "cards": [{"count": 1}], "for": [{"priority": 5}]}],
}


def find_rules(**inventory):
    return objects("extender", **inventory).get("ConfigMap")


def test_sharing_rules_are_passed_to_extender():
    found = find_rules(extender_sharing_rules=RULES)
    assert read_rules(parse_yaml(found["data"]["rules.yaml"])) == read_rules(RULES)
    shown, pod = container("extender", extender_sharing_rules=RULES)
    place = shown["args"].index("--sharing-rules")
    (mount,) = (each for each in shown["volumeMounts"] if each["name"] == "sharing-rules")
    assert shown["args"][place + 1] == f"{mount['mountPath']}/rules.yaml"
    assert {"name": "sharing-rules", "configMap": {"name": found["metadata"]["name"]}} in pod["volumes"]


def test_nothing_is_rendered_without_sharing_rules():
    assert find_rules() is None
    shown, pod = container("extender")
    assert "--sharing-rules" not in shown["args"]
    assert "sharing" not in json.dumps(pod)


def test_memory_factor_is_passed_to_agent_only_when_set():
    assert "--memory-factor" not in container("device_plugin")[0]["args"]
    arguments = container("device_plugin", device_plugin_memory_factor=1.5)[0]["args"]
    assert arguments[arguments.index("--memory-factor") + 1] == "1.5"
