"""How site.yml takes its parts: what everybody has is imported, and what only some want is included with its tags."""

import re

import pytest
from rendering import ROOT
from support.yaml import read_yaml

from accelkit.enablement.verifying import SETTLE_SECONDS

PLAYS = read_yaml(ROOT / "playbooks/site.yml")
IMPORT, INCLUDE = "ansible.builtin.import_role", "ansible.builtin.include_role"
# Whose entry points that are imported expose their defaults to the play, which reads them.
EXPOSING = {"device_plugin", "extender", "node_labels"}


def list_tasks(plays):
    """Every task of the plays, with the condition and the tags that it has from its blocks and its play, too."""

    def walk(tasks, tags, condition):
        for task in tasks:
            own = {*tags, *as_list(task.get("tags", []))}
            when = {"when": condition, **task} if condition else task
            if "block" in task:
                inner = [*task["block"], *task.get("rescue", []), *task.get("always", [])]
                yield from walk(inner, own, when.get("when"))
            else:
                yield when, own

    for play in plays:
        yield from walk(play.get("tasks", []), set(as_list(play.get("tags", []))), None)


def as_list(tags):
    return tags if isinstance(tags, list) else [tags]


TASKS = list(list_tasks(PLAYS))
INCLUDED = [(task, tags) for task, tags in TASKS if INCLUDE in task]


@pytest.mark.parametrize("playbook", ["site", "preflight", "verify"])
def test_imported_roles_have_no_condition(playbook):
    tasks = list_tasks(read_yaml(ROOT / f"playbooks/{playbook}.yml"))
    assert [task["name"] for task, _ in tasks if IMPORT in task and "when" in task] == []


def test_roles_with_shared_defaults_are_imported():
    imported = {task[IMPORT]["name"].rpartition(".")[2] for task, _ in TASKS if IMPORT in task}
    assert imported == EXPOSING


@pytest.mark.parametrize(("task", "tags"), INCLUDED, ids=[task["name"] for task, _ in INCLUDED])
def test_included_roles_apply_their_tags(task, tags):
    of_play = {tag for play in PLAYS if task in play.get("tasks", []) for tag in as_list(play.get("tags", []))}
    applied = set(as_list(task[INCLUDE].get("apply", {}).get("tags", [])))
    assert tags
    assert applied | of_play == tags


def test_query_of_installed_parts_has_tags_of_dependent_parts():
    [asked] = [tags for task, tags in TASKS if task["name"] == "Find the installed components"]
    needing = {tag for task, tags in INCLUDED if "__accelkit_parts" in str(task.get("when")) for tag in tags}
    assert needing <= asked


@pytest.mark.parametrize("role", sorted({task[INCLUDE]["name"].rpartition(".")[2] for task, _ in INCLUDED} - EXPOSING))
def test_conditions_do_not_read_defaults_of_included_roles(role):
    conditions = " ".join(str(task.get("when", "")) for task, _ in TASKS)
    for name in read_yaml(ROOT / "roles" / role / "defaults/main.yml"):
        assert not re.search(rf"\b{name}\b(?! \| default\()", conditions), name


def test_stage_manifests_are_applied_in_order_and_removed_in_reverse():
    known = read_yaml(ROOT / "playbooks/vars/settings.yml")["__accelkit_settings"]["accelkit_stage_manifests"][
        "options"
    ]
    followed = [
        task["vars"]["stage_manifests_stage"] for task, _ in INCLUDED if "stage_manifests" in str(task[INCLUDE])
    ]
    assert followed == list(known)
    [removal] = [
        task
        for task, _ in list_tasks(read_yaml(ROOT / "playbooks/remove.yml"))
        if "stage_manifests" in str(task.get(INCLUDE, ""))
    ]
    removed = re.findall(r"'([\w-]+)'", removal["loop"].partition("|")[0])
    assert removed == followed[::-1]


WITH_FILES = [path for path in sorted((ROOT / "playbooks").glob("*.yml")) if "vars/cluster.yml" in path.read_text()]


@pytest.mark.parametrize("path", WITH_FILES, ids=lambda path: path.stem)
def test_play_variables_do_not_repeat_names_of_vars_files(path):
    for play in read_yaml(path):
        # Files of variables win over a play's own.
        named = {name for file in play.get("vars_files", []) for name in read_yaml(path.parent / file)}
        assert not named & set(play.get("vars", {})), play["name"]


def test_last_play_checks_final_state():
    (task,) = PLAYS[-1]["tasks"]
    check = task["accelkit.kubernetes.memory_check"]
    assert set(check["kinds"]) == {"over_capacity", "shared_whole_card", "unassigned_pod", "bound_past_extender"}
    assert (check["bypassing"], task["when"]) == (True, "not ansible_check_mode")
    # Node agents correct within 20 s.
    assert check["wait_seconds"] > SETTLE_SECONDS
