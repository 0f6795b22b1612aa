"""The objects of the roles driver and stage_manifests, as Ansible renders them."""

import json
import re
from pathlib import Path

import pytest
from jinja2.nativetypes import NativeEnvironment
from narrower_constraints import tighten
from rendering import ROOT, evaluate, run_play
from support.yaml import read_yaml

from accelkit.enablement.drivers.cluster import COMPONENT
from accelkit.enablement.drivers.planning.builds import CONTAINERFILE
from accelkit.enablement.drivers.settings import read_drivers
from accelkit.enablement.openshift.admission import find_violations
from accelkit.enablement.openshift.constraints import read_constraints
from accelkit.model.keys import DRIVER_KERNEL_LABEL, DRIVER_VENDOR_LABEL_PREFIX

ROLE = ROOT / "roles/driver"
pytestmark = [pytest.mark.xdist_group("driver_role"), pytest.mark.timeout(300)]
KERNEL = "5.14.0-427.13.1.el9_4.x86_64"
BUILD = {"containerfile": "FROM base\nRUN make\n", "builder": "kaniko:1", "args": ["--destination=${IMAGE}"]}
NVIDIA = {
    "version": "550.54.14",
    "image": "r/nvidia:${DRIVER_VERSION}-${KERNEL_FULL_VERSION}",
    "kernel_mappings": [{"literal": "6.1", "image": "r/${VENDOR}:6.1"}, {"regexp": "el8", "image": "r/eight"}],
    "module": "nvidia-drm",
    "selector": {"feature.node.kubernetes.io/pci-10de.present": "true"},
    "in_tree_module": "nouveau",
    "mounts": [{"path": "/run/nvidia", "propagation": "Bidirectional"}],
    "env": {"FAST": "1"},
    "build": BUILD,
}
AMD = {"image": "r/amd:1", "ready": ["amd-smi"], "command": ["/load"], "args": ["-v"], "module": "amdgpu"}
SET = {"kernel": KERNEL, "label": KERNEL, "system": "rhel9.4", "nodes": ["a"]}
PLAN = {
    "sets": [
        {**SET, "name": "d-nvidia", "vendor": "nvidia", "image": "r/nvidia:1", "version": "550.54.14"},
        {**SET, "name": "d-amd", "vendor": "amd", "image": "r/amd:1", "version": ""},
    ],
    "builds": [
        {
            "name": "b-1",
            "image": "r/x:1",
            "push_secret": "push",
            "entitlement_secret": "rhel",
            **BUILD,
            "node_selector": {"b": "1"},
        },
        {"name": "b-2", "image": "r/y:1", "push_secret": "", "entitlement_secret": "", **BUILD},
    ],
}
VENDORS = {"nvidia": NVIDIA, "amd": AMD | {"selector": {"a": "b"}}}
CASES = {
    "container": {"driver_mode": "container", "driver_node_selector": {"pool": "gpu"}},
    "kmm": {"driver_mode": "kmm", "driver_image_pull_secrets": ["registry"]},
    "none": {"driver_vendors": {}, "driver_plan": {}},
}
NAMES = ("__driver_objects", "__driver_daemon_sets", "__driver_jobs", "__driver_modules", "__driver_constraints")
STAGED = "__stage_manifests_objects"
MANIFESTS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: one}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: two, namespace: theirs, labels: {app: x, app.kubernetes.io/managed-by: Helm}}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: three}
"""


@pytest.fixture(scope="module")
def rendered(tmp_path_factory):
    """The objects by case and variable."""
    folder = tmp_path_factory.mktemp("driver")
    (folder / "manifests.yaml").write_text(MANIFESTS)
    manifests = {"stage_manifests_by_stage": {"driver": [str(folder / "manifests.yaml")]}}
    cases = {case: {"driver_vendors": VENDORS, "driver_plan": PLAN, **given} for case, given in CASES.items()}
    expression = "dict([" + ", ".join(f"['{name}', {name}]" for name in (*NAMES, STAGED)) + "])"
    roles = ["driver", "stage_manifests"]
    return evaluate(folder, expression, cases | {"manifests": CASES["none"] | manifests}, roles=roles)


def by_name(objects):
    return {each["metadata"]["name"]: each for each in objects}


def test_example_drivers_are_valid_settings():
    assert read_drivers(VENDORS).keys() == {"nvidia", "amd"}


def test_daemon_set_selects_nodes_by_kernel_and_vendor_with_on_delete(rendered):
    made = by_name(rendered["container"]["__driver_daemon_sets"])
    spec = made["d-nvidia"]["spec"]
    assert spec["updateStrategy"] == {"type": "OnDelete"}
    pod = spec["template"]["spec"]
    assert pod["nodeSelector"] == {
        DRIVER_KERNEL_LABEL: KERNEL,
        f"{DRIVER_VENDOR_LABEL_PREFIX}nvidia": "true",
        "pool": "gpu",
    }
    assert pod["tolerations"] == [{"operator": "Exists"}]
    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
    labels = spec["template"]["metadata"]["labels"]
    assert labels["app.kubernetes.io/component"] == COMPONENT
    assert labels["app.kubernetes.io/part-of"] == "accelkit"
    [container] = pod["containers"]
    assert (container["name"], container["image"]) == ("driver", "r/nvidia:1")
    assert container["securityContext"]["privileged"]
    env = {each["name"]: each.get("value") for each in container["env"]}
    assert env.items() >= {"KERNEL_FULL_VERSION": KERNEL, "DRIVER_VERSION": "550.54.14", "FAST": "1"}.items()
    assert pod["serviceAccountName"] in by_name(rendered["container"]["__driver_objects"])


def test_openshift_constraints_admit_driver_pods_and_are_minimal(rendered):
    made = rendered["container"]
    written = by_name(made["__driver_constraints"])
    workloads = [each for each in made["__driver_daemon_sets"] + made["__driver_jobs"] if "spec" in each]
    templates = [each["spec"]["template"]["spec"] for each in workloads]
    pods = {}
    for spec in templates:
        pods.setdefault(spec.get("serviceAccountName") or "default", []).append(spec)
    assert {name.partition(".")[2] for name in written} == pods.keys()
    for account, specs in pods.items():
        [needed] = [read_constraints(each) for name, each in written.items() if name.partition(".")[2] == account]
        assert [find_violations(spec, needed) for spec in specs] == [[]] * len(specs)
        for what, narrower in tighten(needed):
            assert any(find_violations(spec, narrower) for spec in specs), what
    assert rendered["none"]["__driver_constraints"] == []


def test_driver_startup_probe_checks_module_or_ready_command(rendered):
    made = by_name(rendered["container"]["__driver_daemon_sets"])
    probes = {name: each["spec"]["template"]["spec"]["containers"][0]["startupProbe"] for name, each in made.items()}
    assert probes["d-nvidia"]["exec"]["command"] == ["sh", "-c", "test -d /sys/module/nvidia_drm"]
    assert probes["d-amd"]["exec"]["command"] == ["amd-smi"]
    assert {each["failureThreshold"] * each["periodSeconds"] for each in probes.values()} == {1250}
    container = made["d-amd"]["spec"]["template"]["spec"]["containers"][0]
    assert (container["command"], container["args"]) == (["/load"], ["-v"])


def test_host_folders_are_mounted_with_given_options(rendered):
    pod = by_name(rendered["container"]["__driver_daemon_sets"])["d-nvidia"]["spec"]["template"]["spec"]
    paths = {each["name"]: each["hostPath"]["path"] for each in pod["volumes"]}
    mounts = {each["mountPath"]: each for each in pod["containers"][0]["volumeMounts"]}
    assert {each["name"]: each["mountPath"] for each in mounts.values()} == paths
    assert mounts["/lib/modules"]["readOnly"]
    assert mounts["/run/nvidia"]["mountPropagation"] == "Bidirectional"
    assert "readOnly" not in mounts["/dev"]


def test_build_job_mounts_containerfile_and_secrets(rendered):
    # The name of a Job ends in a hash.
    objects = rendered["container"]["__driver_jobs"]
    made = {(each["kind"], re.sub(r"-[0-9a-f]{8}$", "", each["metadata"]["name"])): each for each in objects}
    assert made["ConfigMap", "b-1"]["data"] == {"Containerfile": BUILD["containerfile"]}
    spec = made["Job", "b-1"]["spec"]
    assert spec["activeDeadlineSeconds"] == 1800
    assert spec["template"]["spec"]["nodeSelector"] == {"b": "1"}
    [container] = spec["template"]["spec"]["containers"]
    assert CONTAINERFILE in {each["mountPath"] for each in container["volumeMounts"]}
    assert {"/accelkit/auth", "/etc/pki/entitlement"} < {each["mountPath"] for each in container["volumeMounts"]}
    assert {each["value"] for each in container["env"]} == {"/accelkit/auth", "/accelkit/auth/config.json"}
    bare = made["Job", "b-2"]["spec"]["template"]["spec"]
    assert "env" not in bare["containers"][0]
    assert "nodeSelector" not in bare
    assert [each["name"] for each in bare["volumes"]] == ["containerfile"]
    assert not bare["automountServiceAccountToken"]


def test_kmm_module_has_kernel_mappings_in_order(rendered):
    made = by_name(rendered["kmm"]["__driver_modules"])
    spec = made["accelkit-driver-nvidia"]["spec"]
    container = spec["moduleLoader"]["container"]
    assert container["modprobe"]["moduleName"] == "nvidia-drm"
    assert container["version"] == "550.54.14"
    assert [
        (each.get("literal"), each.get("regexp"), each["containerImage"]) for each in container["kernelMappings"]
    ] == [
        ("6.1", None, "r/nvidia:6.1"),
        (None, "el8", "r/eight"),
        (None, "^.+$", "r/nvidia:550.54.14-${KERNEL_FULL_VERSION}"),
    ]
    assert all(each["inTreeModulesToRemove"] == ["nouveau"] for each in container["kernelMappings"])
    config = container["kernelMappings"][0]["build"]["dockerfileConfigMap"]["name"]
    assert by_name(rendered["kmm"]["__driver_objects"])[config]["data"] == {"dockerfile": BUILD["containerfile"]}
    assert spec["selector"] == NVIDIA["selector"]
    assert spec["imageRepoSecret"] == {"name": "registry"}
    # Name and namespace are a part of labels of nodes.
    assert all(len(name) + len(each["metadata"]["namespace"]) <= 41 for name, each in made.items())
    assert "build" not in made["accelkit-driver-amd"]["spec"]["moduleLoader"]["container"]["kernelMappings"][0]


def test_nothing_is_rendered_without_drivers(rendered):
    assert rendered["none"] == {name: [] for name in (*NAMES, STAGED)}


def test_stage_manifests_get_labels_and_default_namespace(rendered):
    made = by_name(rendered["manifests"][STAGED])
    ours = {
        "app.kubernetes.io/component": "stage-driver",
        "app.kubernetes.io/part-of": "accelkit",
        "app.kubernetes.io/managed-by": "ansible",
    }
    assert made["one"]["metadata"] == {"name": "one", "namespace": "accelkit", "labels": ours}
    assert made["two"]["metadata"] == {"name": "two", "namespace": "theirs", "labels": {"app": "x", **ours}}
    assert made["three"]["metadata"] == {"name": "three", "labels": ours}


def test_driver_playbook_uncordons_node_in_always_block():
    plays = read_yaml(ROOT / "playbooks/driver.yml")
    [block] = plays[-1]["tasks"]
    [uncordon] = block["always"]
    assert uncordon["accelkit.kubernetes.node_cordon"]["state"] == "released"
    assert {"block", "rescue", "always"} <= block.keys()
    assert "serial" in plays[-1]
    assert Path(ROLE / "tasks/check.yml").is_file()


def list_tasks(found):
    """All tasks of plays, tasks and blocks, however deep."""
    for each in found:
        yield each
        for key in ("tasks", "block", "rescue", "always"):
            yield from list_tasks(each.get(key, ()))


@pytest.mark.parametrize("name", ["driver.yml", "verify.yml", "remove.yml", "tasks/future.yml"])
def test_tasks_on_hosts_have_timeouts(name):
    tasks = list_tasks(read_yaml(ROOT / "playbooks" / name))
    asked = [each for each in tasks if {"ansible.builtin.raw", "ansible.builtin.package"} & each.keys()]
    assert asked != []
    assert [each["name"] for each in asked if "timeout" not in each] == []


def load_tasks(name):
    return read_yaml(ROLE / f"tasks/{name}.yml")


def test_failed_image_build_does_not_block_other_kernels():
    tasks = {each["name"]: each for each in load_tasks("containers")}
    names = list(tasks)
    wait, end = "Wait until the driver images are built", "Check that the images were built"
    assert tasks[wait]["ignore_errors"] is True
    assert names.index(wait) < names.index("Apply the DaemonSets for the kernels") < names.index(end) == len(names) - 1
    environment = NativeEnvironment(autoescape=True)
    environment.tests["failed"] = lambda result: result.get("failed", False)
    results = [
        {"failed": failed, "item": {"metadata": {"name": name}}} for name, failed in (("b-1", True), ("b-2", False))
    ]
    found = environment.from_string(tasks[end]["vars"]["driver_not_built"].strip()).render(
        driver_built={"results": results}
    )
    assert found == ["b-1"]


@pytest.mark.parametrize(
    ("ready", "away", "done"), [(2, [], False), (2, ["a"], True), (1, ["a"], False), (3, [], True)]
)
def test_rollout_does_not_wait_for_unreachable_node(ready, away, done):
    (task,) = (each for each in load_tasks("check") if each["name"].startswith("Wait until"))
    status = {"observedGeneration": 1, "numberReady": ready, "desiredNumberScheduled": 3}
    given = {
        "item": {"nodes": ["a", "b", "c"]},
        "driver_plan": {"problems": [{"reason": "NodeNotReady", "nodes": [*away, "other"]}]},
        "driver_rollout": {"resources": [{"metadata": {"generation": 1}, "status": status}]},
    }
    environment = NativeEnvironment(autoescape=True)
    environment.filters["intersect"] = lambda one, other: [each for each in one if each in other]
    environment.filters["flatten"] = lambda lists: [each for some in lists for each in some]
    given["driver_away"] = environment.from_string(task["vars"]["driver_away"].strip()).render(given)
    assert environment.compile_expression(task["until"])(**given) is done


def test_rollouts_of_all_kernels_share_one_deadline(tmp_path):
    note, wait = load_tasks("check")[1:3]
    assert "driver_wait_ends" in note["ansible.builtin.set_fact"]
    tries = {
        **{key: wait[key] for key in ("retries", "register")},
        "until": False,
        "delay": 3,
        "ignore_errors": True,
        "loop": ["a", "b"],
        "ansible.builtin.ping": {},
    }
    told = {"content": "{{ driver_rollout.results | to_json }}", "dest": str(tmp_path / "tried.json")}
    tasks = [note, tries, {"ansible.builtin.copy": told}]
    run_play(tmp_path, {"vars": {"driver_timeout": 9}, "tasks": tasks}, seconds=120)
    tried = json.loads((tmp_path / "tried.json").read_text())
    assert [(each["attempts"], each["failed"]) for each in tried] == [(2, True), (1, True)]


def test_unreachable_host_fails_task_before_node_is_cordoned():
    """Of a host that is not reached, Ansible does neither what rescues nor what is done in any case."""
    plays = read_yaml(ROOT / "playbooks/driver.yml")
    [block] = plays[-1]["tasks"]
    asked = [place for place, each in enumerate(block["block"]) if "delegate_to" in each]
    assert len(asked) == 2
    for place in asked:
        task, after = block["block"][place : place + 2]
        assert task["ignore_unreachable"] is True
        assert after["when"] == f"{task['register']} is unreachable"
        assert "ansible.builtin.fail" in after
    cordons = [place for place, each in enumerate(block["block"]) if "accelkit.kubernetes.node_cordon" in each]
    assert asked[0] < cordons[0]
