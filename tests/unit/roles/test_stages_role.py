from pathlib import Path

import pytest
from jinja2 import Environment, StrictUndefined
from support.yaml import read_yaml
from test_roles import Defaults

ROOT = Path(__file__).resolve().parents[3]
INSTALLER = read_yaml(ROOT / "playbooks/files/installer.yml")["rules"]
CHECKER = read_yaml(ROOT / "playbooks/files/checker.yml")["rules"]


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
def test_check_pods_use_scheduler_that_calls_extender(inventory, name):
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
def test_extender_without_service_is_called_at_its_url(inventory, url):
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
def test_settings_set_role_variables(setting, value, variable):
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
@pytest.mark.parametrize("rules", [INSTALLER, CHECKER])
def test_installer_and_checker_have_rights_for_checks(rules, resource, verb):
    assert any(resource in rule["resources"] and verb in rule["verbs"] and "" in rule["apiGroups"] for rule in rules)


def test_checks_run_after_installation_only_when_enabled():
    plays = read_yaml(ROOT / "playbooks/site.yml")
    names = [play["name"] for play in plays]
    [play] = [each for each in plays if each.get("tags") == ["stages"]]
    assert names.index(play["name"]) > names.index("Configure kube-scheduler to call the extender")
    [task] = play["tasks"]
    assert task["when"] == "__accelkit_stages_wanted"
    assert read_yaml(ROOT / "playbooks/vars/cluster.yml")["__accelkit_stages_wanted"].count("default(true, true)") == 1


def test_verify_playbook_repeats_checks_before_verification():
    play = read_yaml(ROOT / "playbooks/verify.yml")[-1]
    names = [task["name"] for task in play["tasks"]]
    again = play["tasks"][names.index("Check the nodes again")]
    assert again["when"] == "__accelkit_stages_wanted"
    assert names.index(again["name"]) < names.index("Verify the stages of the nodes")
    assert "tasks_from: check" not in str(again)
    *_, work = read_yaml(ROOT / "playbooks/tasks/check_nodes.yml")
    assert work["ansible.builtin.include_role"] == {"name": "accelkit.kubernetes.stages", "tasks_from": "apply"}
    assert (work["when"], work["vars"]["stages_warn"]) == ("__accelkit_not_checked == ''", False)
    whole = (ROOT / "playbooks/verify.yml").read_text()
    assert "accelkit.kubernetes.stages" not in whole


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, ""),
        ({"ansible_check_mode": True}, "this run uses check mode (--check)"),
        ({"__accelkit_agents": {"resources": []}}, "no node agent is installed"),
        (
            {"__accelkit_checker": {"denied": ["create pods in accelkit"]}},
            "the user may not create pods in accelkit; let an administrator bind it to playbooks/files/checker.yml",
        ),
    ],
)
def test_reason_for_skipped_node_checks_is_reported(given, told):
    [task] = [
        each for each in read_yaml(ROOT / "playbooks/tasks/check_nodes.yml") if "ansible.builtin.set_fact" in each
    ]
    text = task["ansible.builtin.set_fact"]["__accelkit_not_checked"]
    known = {
        "ansible_check_mode": False,
        "__accelkit_agents": {"resources": [{}]},
        "__accelkit_checker": {"denied": []},
        **given,
    }
    assert Environment(undefined=StrictUndefined, autoescape=False).from_string(text).render(known) == told  # noqa: S701
