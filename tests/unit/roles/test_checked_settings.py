"""What the roles refuse before they change anything, since the services would refuse it in every pod."""

import pytest
from rendering import ROOT, run_play

from accelkit.model.card import MAX_MEMORY_FACTOR

# Told once, by one process.
pytestmark = pytest.mark.xdist_group("checked_settings")
# By a name, the role, what is given, and a part of what is told; empty where it passes.
CASES = {
    "defaults": ("extender", {}, ""),
    "rules": ("extender", {"extender_sharing_rules": {"quotas": [{"namespaces": ["ml"], "cards": 1}]}}, ""),
    "typo": ("extender", {"extender_sharing_rules": {"quota": []}}, "extender_sharing_rules: the sharing rules are"),
    "short": ("extender", {"extender_pod_group_seconds": 0.5}, "extender_pod_group_seconds is 0.5"),
    "negative": ("extender", {"extender_pod_group_hold": -1}, "extender_pod_group_hold is -1"),
    "no groups": ("extender", {"extender_pod_group_hold": 50}, ""),
    "too long": (
        "extender",
        {"extender_pod_groups": True, "extender_pod_group_hold": 5.5},
        "kube-scheduler's timeout is 10s (scheduler_extender_timeout)",
    ),
    "longer calls": (
        "extender",
        {"extender_pod_groups": True, "extender_pod_group_hold": 40, "scheduler_extender_timeout": "1m20s"},
        "",
    ),
    "second scheduler": (
        "extender",
        {
            "extender_pod_groups": True,
            "accelkit_mode": "second-scheduler",
            "scheduler_extender_timeout": "1m",
            "second_scheduler_extender_timeout": "6s",
        },
        "kube-scheduler's timeout is 6s (second_scheduler_extender_timeout)",
    ),
    "one on a host": ("extender", {"extender_expose": "host"}, ""),
    "replicas on a host": (
        "extender",
        {"extender_expose": "host", "extender_replicas": 2},
        "cannot run 2 replicas of the extender: extender_expose: host supports exactly one replica",
    ),
    "replicas": ("extender", {"extender_replicas": "3"}, ""),
    "agents": ("device_plugin", {}, ""),
    "most": ("device_plugin", {"device_plugin_memory_factor": MAX_MEMORY_FACTOR, "device_plugin_gas_slots": 1000}, ""),
    "factor": (
        "device_plugin",
        {"device_plugin_memory_factor": MAX_MEMORY_FACTOR + 0.5},
        "set it to 1, or to a higher value up to 16",
    ),
    "less": ("device_plugin", {"device_plugin_memory_factor": 0.5}, "device_plugin_memory_factor is 0.5"),
    "caches": ("kernel_cache", {}, ""),
    "old cluster": ("kernel_cache", {"kernel_cache_kubernetes_version": "v1.29.4"}, "they exist since 1.30"),
    "two names": (
        "kernel_cache",
        {"kernel_cache_signer_policies": [{"name": "a", "spec": {}}, {"name": "a", "spec": {}}]},
        "use a different name for each policy",
    ),
    "no list": ("kernel_cache", {"kernel_cache_signer_policies": None}, "is null; set it to [] for no policies"),
    "null": (
        "kernel_cache",
        {"kernel_cache_signer_policies": [{"name": "a", "spec": {}}, {"name": "b", "spec": {"namespaces": None}}]},
        "kernel_cache_signer_policies has null in entry 2 (b); set a value, or remove the key",
    ),
    "deep null": (
        "kernel_cache",
        {"kernel_cache_signer_policies": [{"name": "a", "spec": {"signers": [{"key": {"data": [1, None]}}]}}]},
        "null in entry 1 (a);",
    ),
    "null entries": (
        "kernel_cache",
        {"kernel_cache_signer_policies": [None, {"name": None, "spec": {}}, {"name": "c", "spec": None}]},
        "null in entry 1, entry 2, entry 3 (c);",
    ),
    "the word": (
        "kernel_cache",
        {"kernel_cache_signer_policies": [{"name": "null", "spec": {"images": ['r/a"\\', ": null, "]}}]},
        "",
    ),
    "no file": ("kernel_cache", {"kernel_cache_trusted_root": "/nowhere"}, "/nowhere does not exist on this machine"),
    "own keys": (
        "kernel_cache",
        {"kernel_cache_pull_secret_namespaces": ["accelkit"]},
        "list each Secret individually, as accelkit/NAME",
    ),
    "one of its own": ("kernel_cache", {"kernel_cache_pull_secret_namespaces": ["accelkit/quay"]}, ""),
    "no certificates": ("kernel_cache", {"extender_expose": "host"}, "set kernel_cache_webhook: false"),
    "slots": ("device_plugin", {"device_plugin_gas_slots": 1001}, "device_plugin_gas_slots is 1001"),
}
# What is looked up in a cluster is tested on one.
ENTRIES = {"extender": "preflight", "device_plugin": "preflight", "kernel_cache": "settings"}


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What each case is told, by its name."""
    folder = tmp_path_factory.mktemp("checked")

    def write(number, text):
        return {"ansible.builtin.copy": {"content": text, "dest": str(folder / str(number))}}

    tasks = [
        {
            "vars": given,
            "block": [
                {"ansible.builtin.include_role": {"name": f"accelkit.kubernetes.{role}", "tasks_from": ENTRIES[role]}},
                write(number, ""),
            ],
            "rescue": [write(number, "{{ ansible_failed_result.msg }}")],
        }
        for number, (role, given, _) in enumerate(CASES.values())
    ]
    run_play(folder, {"tasks": tasks}, seconds=300)
    return {name: " ".join((folder / str(number)).read_text().split()) for number, name in enumerate(CASES)}


@pytest.mark.parametrize("name", CASES)
def test_roles_reject_settings_that_services_reject(told, name):
    part = CASES[name][2]
    assert part in told[name] if part else told[name] == ""


def test_maximum_memory_factor_of_role_matches_agent():
    text = (ROOT / "roles/device_plugin/tasks/preflight.yml").read_text()
    assert f"device_plugin_memory_factor | float <= {MAX_MEMORY_FACTOR:g}" in text
