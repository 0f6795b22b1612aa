import pytest
from odd_manifests import CONFIGURATION, POLICY
from support.yaml import parse_yaml
from version_table import desired

from accelkit.errors import ConfigurationError
from accelkit.scheduler.launch.rancher import Rancher

K3S, RKE2 = Rancher("k3s"), Rancher("rke2")
CONFIG = "/etc/rancher/k3s/config.yaml"


def planned(launch, files, version="v1.34.4", current=None):
    return launch.plan(current, None, lambda path: files[path].encode() if path in files else None, desired(version))


def configuration(plan):
    return parse_yaml(plan.files[plan.marker.partition("=")[2]].content.decode())


def test_k3s_drop_in_adds_one_scheduler_argument():
    plan = planned(K3S, {})
    assert plan.launch_text == (
        f"# Written by accelkit, which takes it away again.\nkube-scheduler-arg+:\n- {plan.marker.removeprefix('--')}\n"
    )
    document = configuration(plan)
    assert document["clientConnection"]["kubeconfig"] == "/var/lib/rancher/k3s/server/cred/scheduler.kubeconfig"
    assert document["enableProfiling"] is False


def test_rke2_drop_in_also_mounts_configuration_folder():
    plan = planned(RKE2, {"/etc/rancher/rke2/config.yaml": "data-dir: /data\n"})
    assert plan.launch_text.endswith(
        "kube-scheduler-extra-mount+:\n- /etc/kubernetes/accelkit:/etc/kubernetes/accelkit:ro\n"
    )
    assert configuration(plan)["clientConnection"]["kubeconfig"] == "/data/server/cred/scheduler.kubeconfig"


@pytest.mark.parametrize("launch", [K3S, RKE2])
def test_drop_in_is_owned_by_accelkit_and_removed_on_unswitch(launch):
    plan = planned(launch, {})
    assert launch.path == f"/etc/rancher/{launch.distribution}/config.yaml.d/50-accelkit.yaml"
    assert launch.is_switched(plan.launch_text)
    assert launch.unswitch(plan.launch_text, None) is None
    assert planned(launch, {}, current=plan.launch_text) == plan


def test_existing_configuration_is_merged():
    files = {CONFIG: "kube-scheduler-arg: config=/etc/own.yaml\n", "/etc/own.yaml": CONFIGURATION}
    assert len(configuration(planned(K3S, files))["extenders"]) == 2


def test_configuration_is_resolved_through_rke2_mounts():
    files = {
        "/etc/rancher/rke2/config.yaml": (
            "kube-scheduler-arg:\n- config=/inside/own.yaml\nkube-scheduler-extra-mount:\n- /outside:/inside:ro\n"
        ),
        "/outside/own.yaml": CONFIGURATION,
    }
    assert len(configuration(planned(RKE2, files))["extenders"]) == 2


def test_config_map_policy_is_disabled():
    files = {
        CONFIG: "kube-scheduler-arg:\n- policy-configmap=own\n- policy-configmap-namespace=team\n",
        "configmap:team/own/policy.cfg": POLICY,
    }
    plan = planned(K3S, files, "v1.21.14")
    assert plan.launch_text.endswith(
        f"- {plan.marker.removeprefix('--')}\n- policy-configmap=\n- policy-configmap-namespace=\n"
    )


def test_configuration_files_are_merged_in_order():
    drop_in = "/etc/rancher/k3s/config.yaml.d/10-own.yaml"
    launch = Rancher("k3s", sources=(CONFIG, drop_in, K3S.path))
    files = {
        CONFIG: "kube-scheduler-arg:\n- kube-api-qps=1\n",
        drop_in: "kube-scheduler-arg+:\n- kube-api-burst=2\n",
        K3S.path: planned(K3S, {}).launch_text,
    }
    added = configuration(planned(launch, files))["clientConnection"]
    assert (added["qps"], added["burst"]) == (1, 2)
    replaced = configuration(planned(launch, {**files, drop_in: "kube-scheduler-arg:\n- kube-api-burst=2\n"}))
    assert "qps" not in replaced["clientConnection"]


def test_later_file_that_replaces_scheduler_arguments_is_refused():
    late = "/etc/rancher/k3s/config.yaml.d/90-own.yaml"
    with pytest.raises(ConfigurationError, match="replaces `kube-scheduler-arg`"):
        planned(Rancher("k3s", sources=(CONFIG, late)), {late: "kube-scheduler-arg: v=2\n"})


@pytest.mark.parametrize(("text", "message"), [("a: [", "not a single YAML"), ("- a\n", "is not a mapping")])
def test_unreadable_file_is_refused(text, message):
    with pytest.raises(ConfigurationError, match=message):
        planned(K3S, {CONFIG: text})


def test_foreign_file_at_drop_in_path_is_refused():
    with pytest.raises(ConfigurationError, match="does not belong to accelkit"):
        planned(K3S, {}, current="a: 1\n")


def test_missing_configuration_is_refused():
    with pytest.raises(ConfigurationError, match="the host has no /a"):
        planned(K3S, {CONFIG: "kube-scheduler-arg: config=/a\n"})
