from __future__ import annotations

from pathlib import Path

import pytest
from test_roles import Defaults, load

ROOT = Path(__file__).resolve().parents[3]
INSTALLER = load(ROOT / "playbooks/files/installer.yml")["rules"]


@pytest.mark.parametrize(
    ("inventory", "name"),
    [
        ({}, ""),
        ({"accelkit_mode": "second-scheduler"}, "accelkit-scheduler"),
        ({"accelkit_mode": "second-scheduler", "accelkit_scheduler_name": "other"}, "other"),
        ({"accelkit_mode": "second-scheduler", "second_scheduler_name": "own"}, "own"),
        # One that is removed again calls no extender.
        ({"accelkit_mode": "", "accelkit_scheduler_name": "other"}, ""),
    ],
)
def test_pods_go_to_the_scheduler_that_calls_the_extender(inventory, name):
    assert Defaults("stages", **inventory)["stages_scheduler"] == name


@pytest.mark.parametrize(
    ("inventory", "url"),
    [
        ({}, ""),
        ({"extender_url": "http://x:1"}, ""),
        ({"extender_url": "http://x:1", "extender_expose": "host"}, "http://x:1"),
        ({"extender_expose": "host"}, ""),
    ],
)
def test_an_extender_without_a_service_is_asked_at_its_url(inventory, url):
    assert Defaults("stages", **inventory)["stages_extender_url"] == url


@pytest.mark.parametrize(
    ("setting", "value", "variable"),
    [
        ("accelkit_namespace", "space", "namespace"),
        ("accelkit_image", "reg/x:1", "image"),
        ("accelkit_shared_nodes", ["a"], "nodes"),
        ("accelkit_image_pull_secrets", ["s"], "image_pull_secrets"),
        ("device_plugin_runtime_class", "nvidia", "runtime_class"),
        ("extender_name", "ext", "extender_service"),
    ],
)
def test_settings_reach_the_role(setting, value, variable):
    assert Defaults("stages", **{setting: value})[f"stages_{variable}"] == value


@pytest.mark.parametrize(
    ("resource", "verb"),
    [
        *(("pods", verb) for verb in ("create", "delete", "get", "list", "watch")),
        ("serviceaccounts/token", "create"),
        ("services/proxy", "get"),
        ("nodes", "patch"),
    ],
)
def test_the_installer_has_the_rights_that_checks_need(resource, verb):
    assert any(
        resource in rule["resources"] and verb in rule["verbs"] and "" in rule["apiGroups"] for rule in INSTALLER
    )


def test_checks_run_when_all_is_installed_and_only_where_they_are_wanted():
    plays = load(ROOT / "playbooks/site.yml")
    names = [play["name"] for play in plays]
    [play] = [each for each in plays if each.get("tags") == ["stages"]]
    assert names.index(play["name"]) > names.index("Configure kube-scheduler to call the extender")
    [task] = play["tasks"]
    assert task["when"] == "__accelkit_stages_wanted"
    assert load(ROOT / "playbooks/vars/cluster.yml")["__accelkit_stages_wanted"].count("default(true, true)") == 1
