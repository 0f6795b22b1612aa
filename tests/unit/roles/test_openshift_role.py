"""What OpenShift needs for the pods of every role, and the objects of the role openshift, as Ansible renders them."""

import pytest
from narrower_constraints import tighten
from rendering import ROOT, evaluate, list_variables, run_play
from support.yaml import read_yaml

from accelkit.enablement.openshift.account_constraints import find_refused
from accelkit.enablement.openshift.admission import find_violations
from accelkit.enablement.openshift.constraints import read_constraints

# Rendered once, by one process.
pytestmark = [pytest.mark.xdist_group("openshift"), pytest.mark.timeout(300)]
TEMPLATES = sorted((ROOT / "roles").glob("*/templates/*.yaml.j2"))
ROLES = sorted({path.parents[1].name for path in TEMPLATES} | {"openshift"})
# Settings that change what pods may have, beside the defaults, by role.
SETTINGS = {
    "device_plugin": [
        {"processes": True, "cgroups": True, "mps_folder": "/mps", "cdi_folders": ["/etc/cdi"]},
        {"privileged": True, "log_folder": ""},
    ],
    "extender": [{"expose": "host"}, {"log_folder": ""}],
    "kernel_cache": [{"scan": False, "agent_former_user": 0, "webhook": False}],
    "second_scheduler": [{"extender_url": "http://10.0.0.1:1"}],
}
WORKLOADS = {"Deployment", "DaemonSet", "CronJob"}
FOUND = {"constraints": True, "machines": True, "autoscaling": True}
NONE = dict.fromkeys(FOUND, False)
SOURCE = {
    "metadata": {"name": "worker-a", "namespace": "openshift-machine-api"},
    "spec": {
        "selector": {"matchLabels": {}},
        "template": {"metadata": {}, "spec": {"providerSpec": {"value": {"kind": "AWSMachineProviderConfig"}}}},
    },
}
WISH = {"name": "cards-a", "source": "worker-a", "instance_type": "big", "autoscale": {"min": 0, "max": "4"}}


@pytest.fixture(scope="module")
def rendered(tmp_path_factory):
    """Objects by case: those of each role with its constraints, those of the role openshift by what it was given."""
    expressions = {}
    for template in TEMPLATES:
        role = template.parents[1].name
        for at, settings in enumerate([{}, *SETTINGS.get(role, [])]):
            given = {f"{role}_{name}": value for name, value in settings.items()}
            given["scheduler_extender_url"] = "https://10.0.0.1:1"
            given["second_scheduler_kubernetes_version"] = "v1.34.4"
            lookup = f"lookup('ansible.builtin.template', '{template}', template_vars={given})"
            wanted = f"{lookup} | from_yaml_all | select | accelkit.kubernetes.security_constraints"
            expressions[f"{role}/{template.stem}/{at}"] = wanted
    of_roles = "dict([" + ", ".join(f"['{name}', {each}]" for name, each in expressions.items()) + "])"
    own = {
        "filling": {"openshift_found": FOUND, "openshift_created_pods": True},
        "nothing": {"openshift_found": NONE, "openshift_created_pods": True},
        "sets": {
            "openshift_found": FOUND,
            "openshift_sets": {"resources": [SOURCE]},
            "openshift_machine_sets": [WISH],
            "openshift_cluster_autoscaler": {"scaleDown": {"enabled": True}},
        },
    }
    folder = tmp_path_factory.mktemp("rendered")
    return (
        evaluate(folder / "own", "__openshift_objects", own, roles=ROLES)
        | evaluate(folder / "roles", of_roles, {"all": {}}, roles=ROLES)["all"]
    )


def pods_of(objects):
    for each in objects:
        if each["kind"] in WORKLOADS:
            spec = each["spec"]["jobTemplate"]["spec"] if each["kind"] == "CronJob" else each["spec"]
            yield f"{each['metadata']['namespace']}.{spec['template']['spec']['serviceAccountName']}", spec["template"]


def test_constraints_of_each_account_admit_its_pods_and_are_minimal(rendered):
    seen = set()
    for case, objects in rendered.items():
        constraints = {each["metadata"]["name"]: each for each in objects if "users" in each}
        for account, template in pods_of(objects):
            needed = read_constraints(constraints[account])
            assert find_violations(template["spec"], needed) == [], case
            for what, narrower in tighten(needed):
                assert find_violations(template["spec"], narrower), (case, what)
            seen.add(account.partition(".")[2])
    assert seen == {
        "accelkit-cache-agent",
        "accelkit-cache-controller",
        "accelkit-certificates",
        "accelkit-extender",
        "accelkit-node-agent",
        "accelkit-remediation",
        "accelkit-scheduler",
        "accelkit-scheduler-keeper",
    }


def test_no_account_is_privileged_by_default(rendered):
    for case, objects in rendered.items():
        for each in objects:
            if "users" not in each:
                continue
            assert each["metadata"]["labels"]["app.kubernetes.io/part-of"] == "accelkit"
            assert each["allowPrivilegedContainer"] == (case == "device_plugin/objects.yaml/2"), case
            assert not {"SYS_ADMIN", "ALL", "*"} & {*each["allowedCapabilities"]}
            assert (each["runAsUser"]["type"] == "RunAsAny") is False, case


def test_missing_constraints_of_workloads_are_detected(rendered):
    objects = [each for case in rendered if case.endswith("/0") for each in rendered[case]]
    workloads = [each for each in objects if each["kind"] in WORKLOADS]
    constraints = [each for each in objects if "users" in each]
    assert find_refused(workloads, constraints) == []
    assert len(find_refused(workloads, [])) == len(workloads)


def test_constraints_for_pods_of_cache_controller_are_rendered(rendered):
    [filling] = rendered["filling"]
    assert filling["metadata"]["name"] == "accelkit.default"
    assert filling["metadata"]["labels"]["app.kubernetes.io/component"] == "openshift"


def test_nothing_is_rendered_without_openshift(rendered):
    assert rendered["nothing"] == []


def test_machine_sets_are_rendered_with_autoscalers(rendered):
    kinds = {each["kind"]: each for each in rendered["sets"]}
    assert list(kinds) == ["MachineSet", "MachineAutoscaler", "ClusterAutoscaler"]
    machine = kinds["MachineSet"]["spec"]["template"]["spec"]["providerSpec"]["value"]
    assert machine["instanceType"] == "big"
    assert kinds["MachineAutoscaler"]["spec"]["maxReplicas"] == 4
    assert all(each["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "ansible" for each in kinds.values())


OWNED = {"app.kubernetes.io/part-of": "accelkit", "app.kubernetes.io/managed-by": "ansible"}
CLUSTER = {"openshift_found": FOUND, "accelkit_mode": "second-scheduler", "openshift_sets": {"resources": [SOURCE]}}
SCALED = {**CLUSTER, "openshift_cluster_autoscaler": {"a": 1}}
MADE = {"openshift_set": {"name": "cards-a"}, "resources": [{"spec": {"replicas": 3}, "status": {"readyReplicas": 1}}]}
REFUSED = {
    "kind": "DaemonSet",
    "metadata": {"name": "d", "namespace": "n"},
    "spec": {"template": {"spec": {"containers": [{}]}}},
}
# By name: the file of tasks, what is given and found, and a part of what is told; empty where it passes.
CASES = {
    "nothing there": ("preflight", {"openshift_found": NONE}, ""),
    "all": ("preflight", {**CLUSTER, "openshift_machine_sets": [WISH]}, ""),
    "own scheduler": ("preflight", {"openshift_found": FOUND}, "an OpenShift operator manages it"),
    "no machines": (
        "preflight",
        {"openshift_found": NONE, "openshift_machine_sets": [WISH]},
        "does not support MachineSets",
    ),
    "nobody scales": (
        "preflight",
        {**CLUSTER, "openshift_found": {**FOUND, "autoscaling": False}, "openshift_machine_sets": [WISH]},
        "remove openshift_cluster_autoscaler, and the key autoscale of cards-a",
    ),
    "no source": (
        "preflight",
        {**CLUSTER, "openshift_machine_sets": [{**WISH, "source": "gone"}]},
        "no MachineSet has the name gone",
    ),
    "autoscaler of others": (
        "preflight",
        {**SCALED, "openshift_autoscalers": {"resources": [{"metadata": {"labels": {"a": "b"}}}]}},
        "accelkit does not manage the existing ClusterAutoscaler default",
    ),
    "our autoscaler": (
        "preflight",
        {**SCALED, "openshift_autoscalers": {"resources": [{"metadata": {"labels": OWNED}}]}},
        "",
    ),
    "refused": (
        "check",
        {"openshift_found": FOUND, "openshift_looked": {"results": [{"resources": []}, {"resources": [REFUSED]}]}},
        "DaemonSet n/d: SecurityContextConstraints n.default is missing",
    ),
    "checked": (
        "check",
        {"openshift_found": FOUND, "openshift_looked": {"results": [{"resources": []}, {"resources": []}]}},
        "",
    ),
    "few machines": (
        "check",
        {"openshift_found": NONE, "openshift_made": {"results": [MADE]}},
        "only 1 of 3 machines of the MachineSet cards-a are ready after 900 s",
    ),
    "no set": (
        "check",
        {"openshift_found": NONE, "openshift_made": {"results": [{**MADE, "resources": []}]}},
        "the MachineSet cards-a does not exist; run site.yml",
    ),
}


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What the role's own judgements say of each case; the tasks that ask a cluster are left out."""
    folder = tmp_path_factory.mktemp("told")
    tasks = []
    for case, (file, given, _) in CASES.items():
        own = read_yaml(ROOT / f"roles/openshift/tasks/{file}.yml")
        asserts = [each for each in own if "ansible.builtin.assert" in each]
        said = {"content": "{{ said | default('') }}", "dest": str(folder / case)}
        failed = "{{ ansible_failed_result.results | default([ansible_failed_result]) | map(attribute='msg') | join }}"
        tasks += [
            {"ansible.builtin.set_fact": {"said": ""}},
            {"block": asserts, "vars": given, "rescue": [{"ansible.builtin.set_fact": {"said": failed}}]},
            {"ansible.builtin.copy": said},
        ]
    run_play(folder, {"vars_files": list_variables("openshift"), "tasks": tasks}, seconds=200)
    return {case: (folder / case).read_text() for case in CASES}


@pytest.mark.parametrize("case", CASES)
def test_invalid_openshift_state_is_reported(told, case):
    expected = CASES[case][2]
    assert (expected in told[case]) if expected else told[case] == ""
