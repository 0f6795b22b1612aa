import copy

import pytest

from accelkit.enablement.openshift.autoscalers import write_machine_objects
from accelkit.enablement.openshift.machine_sets import read_desired_machine_sets
from accelkit.errors import ConfigurationError

LABELS = {"app.kubernetes.io/part-of": "accelkit", "app.kubernetes.io/component": "openshift"}
SET_LABEL = "machine.openshift.io/cluster-api-machineset"


def machine_set(name="worker-a", kind="AWSMachineProviderConfig", **value):
    labels = {"machine.openshift.io/cluster-api-cluster": "c", SET_LABEL: name}
    return {
        "apiVersion": "machine.openshift.io/v1beta1",
        "kind": "MachineSet",
        "metadata": {
            "name": name,
            "namespace": "openshift-machine-api",
            "uid": "u",
            "resourceVersion": "7",
            "labels": {"machine.openshift.io/cluster-api-cluster": "c", "app.kubernetes.io/managed-by": "other"},
            "annotations": {
                "machine.openshift.io/vCPU": "4",
                "machine.openshift.io/GPU": "0",
                "capacity.cluster-autoscaler.kubernetes.io/labels": "kubernetes.io/arch=amd64",
                "kubectl.kubernetes.io/last-applied-configuration": "{}",
                "kept": "yes",
            },
        },
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": dict(labels)},
            "template": {
                "metadata": {"labels": {**labels, "machine.openshift.io/cluster-api-machine-role": "worker"}},
                "spec": {
                    "metadata": {"labels": {"zone": "a"}},
                    "taints": [{"key": "dedicated", "effect": "NoSchedule"}],
                    "providerSpec": {"value": {"kind": kind, "image": {"id": "ami", "tags": ["t"]}, **value}},
                },
            },
        },
        "status": {"replicas": 3},
    }


def derive(existing=None, **settings):
    desired = read_desired_machine_sets([{"name": "cards-a", "source": "worker-a", **settings}])
    return write_machine_objects(desired, existing or [machine_set()], LABELS, {})


def test_machine_set_copies_source_except_for_requested_changes():
    source = machine_set(instanceType="m6i.xlarge")
    before = copy.deepcopy(source)
    [made] = derive(
        [source],
        replicas=2,
        instance_type="g6e.12xlarge",
        provider_spec={"image": {"id": "other", "tags": None}, "blockDevices": [1]},
        labels={"accelkit.io/share": "true"},
        taints=[{"key": "dedicated", "value": "cards", "effect": "NoSchedule"}],
        capacity={"cpu": 48, "memory_mib": 393216, "cards": 4, "card_memory": 192},
        accelerator="l40s",
    )
    assert source == before
    assert made["metadata"] == {
        "name": "cards-a",
        "namespace": "openshift-machine-api",
        "labels": {"machine.openshift.io/cluster-api-cluster": "c", **LABELS},
        "annotations": {
            "kept": "yes",
            "machine.openshift.io/vCPU": "48",
            "machine.openshift.io/memoryMb": "393216",
            "capacity.cluster-autoscaler.kubernetes.io/gpu-type": "accelkit.io/memory",
            "capacity.cluster-autoscaler.kubernetes.io/gpu-count": "192",
            "capacity.cluster-autoscaler.kubernetes.io/labels": "accelkit.io/share=true",
            "capacity.cluster-autoscaler.kubernetes.io/taints": "dedicated=cards:NoSchedule",
        },
    }
    spec = made["spec"]
    assert spec["replicas"] == 2
    assert spec["selector"]["matchLabels"][SET_LABEL] == "cards-a"
    assert spec["template"]["metadata"]["labels"] == {
        "machine.openshift.io/cluster-api-cluster": "c",
        SET_LABEL: "cards-a",
        "machine.openshift.io/cluster-api-machine-role": "worker",
    }
    machine = spec["template"]["spec"]
    assert machine["providerSpec"]["value"] == {
        "kind": "AWSMachineProviderConfig",
        "image": {"id": "other"},
        "instanceType": "g6e.12xlarge",
        "blockDevices": [1],
    }
    assert machine["metadata"]["labels"] == {
        "zone": "a",
        "accelkit.io/share": "true",
        "cluster-api/accelerator": "l40s",
    }
    assert machine["taints"] == [{"key": "dedicated", "value": "cards", "effect": "NoSchedule"}]
    assert "status" not in made


@pytest.mark.parametrize(
    ("kind", "field", "name"),
    [
        ("AzureMachineProviderSpec", "vmSize", ""),
        ("GCPMachineProviderSpec", "machineType", ""),
        ("Other", "flavor", "flavor"),
    ],
)
def test_instance_type_field_depends_on_cloud(kind, field, name):
    [made] = derive([machine_set(kind=kind)], instance_type="big", instance_type_field=name)
    assert made["spec"]["template"]["spec"]["providerSpec"]["value"][field] == "big"


def test_instance_type_field_can_be_nested():
    [made] = derive([machine_set(kind="X", a={"c": 1})], instance_type="big", instance_type_field="a.b")
    assert made["spec"]["template"]["spec"]["providerSpec"]["value"]["a"] == {"c": 1, "b": "big"}


@pytest.mark.parametrize(("chosen", "kept"), [(0, 1), (3, 3), (9, 4)])
def test_replicas_chosen_by_autoscaler_are_kept(chosen, kept):
    present = machine_set("cards-a")
    present["metadata"]["labels"] = dict(LABELS)
    present["spec"]["replicas"] = chosen
    made, autoscaler = derive([machine_set(), present], replicas=2, autoscale={"min": 1, "max": 4})
    assert made["spec"]["replicas"] == kept
    assert autoscaler["metadata"] == {"name": "cards-a", "namespace": "openshift-machine-api", "labels": LABELS}
    assert autoscaler["spec"] == {
        "minReplicas": 1,
        "maxReplicas": 4,
        "scaleTargetRef": {"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet", "name": "cards-a"},
    }


def test_cluster_autoscaler_is_named_default():
    [made] = write_machine_objects([], [], LABELS, {"resourceLimits": {"maxNodesTotal": 9}})
    assert (made["kind"], made["metadata"]["name"]) == ("ClusterAutoscaler", "default")
    assert made["spec"] == {"resourceLimits": {"maxNodesTotal": 9}}


@pytest.mark.parametrize(
    ("settings", "reported"),
    [
        ({"source": "none"}, "no MachineSet has the name none.*choose one of these: worker-a"),
        ({"instance_type": "big"}, "whose field for the instance type is unknown.*instance_type_field"),
        ({"replicas": -1}, "Expected `int` >= 0"),
        ({"autoscale": {"min": 3, "max": 2}}, "the minimum of .* is above its maximum"),
        ({"name": "worker-a"}, "the name of another set"),
        ({"replica": 1}, "unknown field `replica`"),
    ],
)
def test_unsupported_settings_are_rejected(settings, reported):
    with pytest.raises(ConfigurationError, match=reported):
        derive([machine_set(kind="Other")], **settings)


def test_existing_foreign_machine_set_is_not_overwritten():
    with pytest.raises(ConfigurationError, match="exists, and accelkit did not create it"):
        derive([machine_set(), machine_set("cards-a")])
