import pytest

from accelkit.enablement.openshift.node_group import Autoscaler, read_node_group, write_hints
from accelkit.errors import ConfigurationError

GROUP = {
    "capacity": {"cpu": 8, "memory_mib": 1024, "cards": 2, "card_memory": 48, "vendor_cards": 2},
    "labels": {"accelkit.io/share": "true", "a": "b"},
    "taints": [{"key": "cards", "effect": "NoSchedule"}, {"key": "x.io/y", "value": "z", "effect": "NoExecute"}],
}
CLUSTER_API = "capacity.cluster-autoscaler.kubernetes.io"


def hints(autoscaler, group=GROUP):
    return write_hints(read_node_group(group), autoscaler)


def test_auto_scaling_group_receives_tags_for_capacity_labels_and_taints():
    prefix = "k8s.io/cluster-autoscaler/node-template"
    assert hints(Autoscaler.AWS) == {
        f"{prefix}/resources/accelkit.io/memory": "48",
        f"{prefix}/resources/accelkit.io/cards": "2",
        f"{prefix}/resources/nvidia.com/gpu": "2",
        f"{prefix}/label/a": "b",
        f"{prefix}/label/accelkit.io/share": "true",
        f"{prefix}/taint/cards": ":NoSchedule",
        f"{prefix}/taint/x.io/y": "z:NoExecute",
    }


def test_azure_scale_set_tags_contain_no_slash():
    found = hints(Autoscaler.AZURE)
    assert found["k8s.io_cluster-autoscaler_node-template_resources_accelkit.io_memory"] == "48"
    assert not [name for name in found if "/" in name]
    assert len(found) == len(hints(Autoscaler.AWS))


def test_gce_instance_template_receives_autoscaler_variables():
    assert hints(Autoscaler.GCE) == {
        "AUTOSCALER_ENV_VARS": (
            "node_labels=a=b,accelkit.io/share=true;node_taints=cards:NoSchedule,x.io/y=z:NoExecute;"
            "extended_resources=accelkit.io/memory=48,accelkit.io/cards=2,nvidia.com/gpu=2"
        )
    }


def test_cluster_api_annotations_contain_one_accelerator_resource():
    assert hints(Autoscaler.CLUSTER_API) == {
        f"{CLUSTER_API}/cpu": "8",
        f"{CLUSTER_API}/memory": "1024Mi",
        f"{CLUSTER_API}/gpu-type": "accelkit.io/memory",
        f"{CLUSTER_API}/gpu-count": "48",
        f"{CLUSTER_API}/labels": "a=b,accelkit.io/share=true",
        f"{CLUSTER_API}/taints": "cards:NoSchedule,x.io/y=z:NoExecute",
    }
    assert hints(Autoscaler.CLUSTER_API, {"capacity": {"cards": 1}})[f"{CLUSTER_API}/gpu-type"] == "accelkit.io/cards"


def test_machine_api_uses_its_own_annotation_names():
    found = hints(Autoscaler.MACHINE_API)
    assert {key: each for key, each in found.items() if key.startswith("machine.")} == {
        "machine.openshift.io/vCPU": "8",
        "machine.openshift.io/memoryMb": "1024",
        "machine.openshift.io/GPU": "2",
    }
    assert found[f"{CLUSTER_API}/gpu-type"] == "accelkit.io/memory"
    assert f"{CLUSTER_API}/cpu" not in found


@pytest.mark.parametrize("autoscaler", Autoscaler)
def test_empty_node_group_produces_no_values(autoscaler):
    assert [each for each in hints(autoscaler, {}).values() if each] == []


@pytest.mark.parametrize("wrong", [{"capacities": {}}, {"capacity": {"cards": -1}}, {"taints": [{"key": "a"}]}])
def test_invalid_node_group_is_rejected(wrong):
    with pytest.raises(ConfigurationError, match=r"cannot read the node group: .*; use only the keys"):
        read_node_group(wrong)
