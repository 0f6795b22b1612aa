"""The objects of all examples; ACCELKIT_WRITE_GOLDEN=1 writes the two golden files anew."""

import os
from pathlib import Path

import pytest
from pod_fields import ClusterGKMCache, DaemonSet, GKMCache, Namespace, Pod, checked

from accelkit.examples.custom import Custom
from accelkit.examples.example import (
    ALL_EXAMPLES,
    SETS,
    Access,
    CosignVersion,
    Environment,
    Example,
    Gpu,
    Scope,
)
from accelkit.examples.files import render
from accelkit.examples.objects import build_objects

GOLDEN = Path(__file__).parent / "golden"
EVERY = pytest.mark.parametrize("example", ALL_EXAMPLES, ids=lambda example: example.file_name)
KIND = SETS["kind"][0]


def split(example, custom=None):
    """Return namespaces, cache and the pod specs of the workloads, checked."""
    objects = checked(build_objects(example, custom or Custom()))
    count = len(example.namespaces)
    specs = [each.spec.template.spec if isinstance(each, DaemonSet) else each.spec for each in objects[count + 1 :]]
    return objects[:count], objects[count], objects[count + 1 :], specs


@EVERY
def test_example_contains_namespaces_then_cache_then_three_workloads(example):
    namespaces, cache, workloads, _ = split(example)
    of_cluster = example.scope is Scope.CLUSTER
    assert [type(each) for each in namespaces] == [Namespace] * (2 if of_cluster else 1)
    assert type(cache) is (ClusterGKMCache if of_cluster else GKMCache)
    assert [type(each) for each in workloads] == [Pod if example.access is Access.ROX else DaemonSet] * 3
    for each in split(example)[2]:
        if isinstance(each, DaemonSet):
            assert each.spec.selector.match_labels.items() <= each.spec.template.metadata.labels.items()


@EVERY
def test_object_names_end_with_example_options(example):
    suffix = f"-{example.access}-{example.scope}-{example.gpu}-{example.cosign}"
    namespaces, cache, workloads, _ = split(example)
    stem = "gkm-test-pod" if example.access is Access.ROX else "gkm-test-ds"
    names = [each.metadata.name for each in (*namespaces, cache, *workloads)]
    numbers = ["1", "2"][: len(namespaces)]
    assert names == [
        *(f"gkm-test-ns-{number}{suffix}" for number in numbers),
        f"gkm-test-obj{suffix}",
        *(f"{stem}-{number}{suffix}" for number in "123"),
    ]


@EVERY
def test_workloads_mount_claim_of_cache_in_their_namespaces(example):
    namespaces, cache, workloads, specs = split(example)
    for spec in specs:
        assert [each.persistent_volume_claim.claim_name for each in spec.volumes] == [cache.metadata.name]
        assert [each.name for each in spec.containers[0].volume_mounts] == [each.name for each in spec.volumes]
    places = [each.metadata.namespace for each in workloads]
    names = [each.metadata.name for each in namespaces]
    assert places == [names[0], names[0], names[-1]]
    if isinstance(cache, ClusterGKMCache):
        assert cache.spec.workload_namespaces == names
    else:
        assert cache.metadata.namespace == names[0]
    modes = {Access.RWO: ["ReadWriteOnce"], Access.ROX: ["ReadWriteOnce", "ReadOnlyMany"]}
    assert split(example)[1].spec.access_modes == modes[example.access]


@pytest.mark.parametrize(
    ("gpu", "cosign", "tag"),
    [
        ("cuda", "v2", "vector-add-cache-cuda-v2"),
        ("cuda", "v3", "vector-add-cache-cuda"),
        ("rocm", "v2", "vector-add-cache-rocm-v2"),
        ("rocm", "v3", "vector-add-cache-rocm"),
    ],
)
def test_image_and_label_depend_on_gpu_and_signature_format(gpu, cosign, tag):
    cache = split(Example(Access.RWO, Scope.NAMESPACE, Gpu(gpu), CosignVersion(cosign)))[1]
    assert cache.spec.image == f"quay.io/gkm/cache-examples:{tag}"
    assert cache.metadata.labels == {"gkm.io/signature-format": f"cosign-{cosign}"}


@EVERY
def test_environment_determines_init_containers_and_node_selectors(example):
    wanted = ["fix-permissions"] if example.environment is Environment.KIND else []
    for spec in split(example)[3]:
        assert [each.name for each in spec.init_containers] == wanted
        for init in spec.init_containers:
            assert init.security_context.run_as_user == 0
            assert init.volume_mounts[0].name == spec.volumes[0].name
            assert init.volume_mounts[0].mount_path in init.command[-1]
    divided = example.environment is Environment.KIND and example.access is Access.RWO
    wanted = [{}, {"gkm-test-node": "true"}, {"gkm-test-node": "false"}] if divided else [{}] * 3
    assert [spec.node_selector for spec in split(example)[3]] == wanted


@EVERY
def test_affinity_and_tolerations_of_environment_apply_to_cache_and_workloads(example):
    _, cache, _, specs = split(example)
    template = cache.spec.pod_template
    placed = [template.spec, *specs] if template else specs
    taints = {
        (Environment.KIND, Gpu.CUDA): ["gpu"],
        (Environment.KIND, Gpu.ROCM): ["gpu"],
        (Environment.NFD, Gpu.CUDA): ["nvidia.com/gpu"],
        (Environment.NFD, Gpu.ROCM): ["amd.com/gpu"],
    }.get((example.environment, example.gpu), [])
    assert (template is None) == (example.environment is Environment.NONE)
    for place in placed:
        assert [each.key for each in place.tolerations] == taints
        assert (place.affinity is not None) == (example.environment is Environment.NFD)


@pytest.mark.parametrize(
    ("gpu", "devices"),
    [
        ("cuda", ["0300_10de", "0302_10de", "10de"]),
        ("rocm", ["0300_1002", "0302_1002", "0380_1002", "1200_1002", "1002"]),
    ],
)
def test_node_affinity_matches_any_pci_label_of_vendor(gpu, devices):
    example = Example(Access.ROX, Scope.NAMESPACE, Gpu(gpu), CosignVersion.V3, Environment.NFD)
    terms = split(example)[3][0].affinity.node_affinity.required_during_scheduling_ignored_during_execution
    keys = [[each.key for each in term.match_expressions] for term in terms.node_selector_terms]
    assert keys == [[f"feature.node.kubernetes.io/pci-{device}.present"] for device in devices]


@pytest.mark.parametrize("environment", Environment)
@pytest.mark.parametrize("access", Access)
def test_custom_placement_overrides_placement_of_environment(environment, access):
    own = Custom(
        affinity={"podAffinity": {}},
        tolerations=[{"key": "own", "operator": "Exists"}],
        node_selectors=({"a": "1"}, {"b": "2"}, {"c": "3"}),
    )
    *_, cache, first, second, third = build_objects(
        Example(access, Scope.NAMESPACE, Gpu.CUDA, CosignVersion.V3, environment), own
    )
    specs = [each["spec"].get("template", each)["spec"] for each in (first, second, third)]
    for place in (cache["spec"]["podTemplate"]["spec"], *specs):
        assert place["affinity"] == own.affinity
        assert place["tolerations"] == own.tolerations
    assert "nodeSelector" not in cache["spec"]["podTemplate"]["spec"]
    assert [spec["nodeSelector"] for spec in specs] == [{"a": "1"}, {"b": "2"}, {"c": "3"}]


@pytest.mark.parametrize(
    "example",
    [KIND, Example(Access.ROX, Scope.CLUSTER, Gpu.CUDA, CosignVersion.V3, Environment.NFD)],
    ids=lambda example: example.file_name,
)
def test_example_file_matches_golden_file(example):
    text = render(build_objects(example))
    path = GOLDEN / example.file_name
    if os.environ.get("ACCELKIT_WRITE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()
