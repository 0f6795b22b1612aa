import msgspec
import pytest
from support.pods import build_pod

from accelkit.errors import AssignmentError, RequestError
from accelkit.model.assignment import Assignment, Share, encode_assignment
from accelkit.model.keys import ASSIGNMENT_ANNOTATION, REQUEST_ANNOTATION
from accelkit.model.pod import Pod, PodRef
from accelkit.model.request import ContainerRequest, Kind, PodRequest
from accelkit.vendors.dialects import load_dialects
from accelkit.vendors.pod_reading import PodReader

MEMORY, CARDS, GCU = "accelkit.io/memory", "accelkit.io/cards", "enflame.com/gcu-memory"
READER = PodReader(load_dialects(["native", "gcushare", "gas"]))
ASSIGNMENT = Assignment({"c": (Share("a", 4),)})


def container(name="c", *, always=False, **limits):
    limits = {{"memory": MEMORY, "cards": CARDS, "gcu": GCU}.get(key, key): value for key, value in limits.items()}
    return {"name": name, "resources": {"limits": limits}} | ({"restartPolicy": "Always"} if always else {})


def read(*containers, init=(), node="", started=None, **annotations):
    keys = {"assignment": ASSIGNMENT_ANNOTATION, "request": REQUEST_ANNOTATION}
    written = {keys[key]: text for key, text in annotations.items()}
    metadata = {"uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z", "annotations": written}
    spec = {"nodeName": node, "initContainers": list(init)}
    body = build_pod("p", *containers, metadata=metadata, status={"startTime": started}, **spec)
    return READER.read(msgspec.convert(body, Pod))


@pytest.mark.parametrize("each", [{"name": "c"}, container(), container(cpu="4", **{"vendor.example/gpu": "1"})])
def test_pod_without_cards_and_accelkit_annotations_is_not_read(each):
    assert read(each) is None


def test_pod_with_card_request_in_init_container_only_is_read():
    assert read({"name": "c"}, init=[container("i", memory=1)]).requests_cards


def test_limit_of_zero_requests_cards_resource_but_no_cards():
    found = read(container(memory=0, cards="0"))
    assert (found.requests_cards, found.read_request(1), found.read_memory_units()) == (True, None, {})


@pytest.mark.parametrize("annotations", [{"assignment": encode_assignment(ASSIGNMENT)}, {"request": "{}"}])
def test_pod_with_accelkit_annotation_is_read_without_card_request(annotations):
    found = read({"name": "c"}, **annotations)
    assert (found.requests_cards, found.dialect.name, found.read_request(1)) == (False, "native", None)


def test_request_annotation_without_card_request_is_rejected():
    with pytest.raises(
        RequestError, match="has entries without a card request: c; the containers that request cards are: none"
    ):
        read({"name": "c"}, request='{"c": {"split": 2}}').read_request(1)


def test_pod_reading_contains_pod_reference_node_and_admission():
    found = read(container(memory=1), node="n")
    assert (found.ref, found.node, found.created_at) == (PodRef("d", "p", "u"), "n", "2026-01-01T00:00:00Z")
    assert [found.admitted, read(container(memory=1), started="now").admitted] == [False, True]


def test_containers_are_in_kubelet_order_with_their_kinds():
    found = read(container("a", memory=1), {"name": "b"}, init=[{"name": "i"}, container("s", always=True)])
    assert found.order == [("i", Kind.INIT), ("s", Kind.SIDECAR), ("a", Kind.APP), ("b", Kind.APP)]
    assert found.app_containers == ["a", "b"]


@pytest.mark.parametrize(
    ("limits", "name"),
    [({"gcu": 4}, "gcushare"), ({"gcu": 4, "memory": 0}, "native"), ({"gpu.intel.com/i915": 1}, "gas")],
)
def test_first_dialect_with_named_resources_is_dialect_of_pod(limits, name):
    assert read(container(**limits)).dialect.name == name


def test_request_is_read_in_any_unit():
    found = read(container(memory=4), request='{"c": {"split": 2}}')
    for unit in (1, 2**30):
        assert found.read_request(unit) == PodRequest((ContainerRequest("c", Kind.APP, 2, 2 * unit),))


def test_request_by_limits_ignores_request_annotation():
    found = read(container(memory=4), container("whole", cards=1), request='{"c": {"split": 3}}')
    with pytest.raises(RequestError, match="cannot be split evenly over 3 cards"):
        found.read_request(1)
    assert [(each.container, each.cards, each.memory_bytes) for each in found.read_request_by_limits(1).containers] == [
        ("c", 1, 4),
        ("whole", 1, 0),
    ]


def test_unreadable_memory_units_are_omitted():
    assert read(container("a", memory="x"), container("b", memory="3")).read_memory_units() == {"b": 3}


def test_assignment_is_read_or_its_error_is_returned():
    assert read({"name": "c"}, assignment=encode_assignment(ASSIGNMENT)).assignment == ASSIGNMENT
    assert read(container(memory=1)).assignment is None
    broken = read(container(memory=1), assignment="{").assignment
    assert isinstance(broken, AssignmentError)
    assert "cannot read" in str(broken)


def test_missing_fields_of_pod_are_empty():
    found = READER.read(msgspec.convert({"metadata": {}, "spec": {"containers": [container(memory=1)]}}, Pod))
    assert (found.ref, found.node, found.created_at, found.admitted) == (PodRef("", "", ""), "", "", False)
    assert (dict(found.annotations), found.assignment) == ({}, None)


def test_pod_reading_contains_card_limits_annotations_and_all_dialects():
    found = read(container(memory="8k", cpu=2, **{"gpu.intel.com/tiles": 3}), {"name": "b"}, request="{}")
    assert [dict(each.limits) for each in found.containers] == [{MEMORY: "8k", "gpu.intel.com/tiles": 3}, {}]
    assert dict(found.annotations) == {REQUEST_ANNOTATION: "{}"}
    assert found.dialects == load_dialects(["native", "gcushare", "gas"])


def test_pod_reading_keeps_few_of_thousands_of_foreign_limits():
    foreign = {f"a.example/{i}": "1" for i in range(5000)} | {f"gpu.intel.com/x{i}": "1" for i in range(5000)}
    found = read(container(**foreign, **{"gpu.intel.com/i915": 1}))
    assert len(found.containers[0].limits) < 20
    # Refused, since a pod is charged by what is kept.
    with pytest.raises(RequestError, match="requests 18 amounts of its cards"):
        found.read_request(1)


def test_trimmed_pod_has_same_reading():
    foreign = {f"a.example/{i}": "1" for i in range(100)}
    for limits in ({MEMORY: "2"}, {"gpu.intel.com/i915": 1, "gpu.intel.com/tiles": "1"}):
        pod = build_labelled_pod(
            foreign | limits, {REQUEST_ANNOTATION: "{}", "gas-deny": "card1", "x": "y" * 1000, "kept": "z"}
        )
        before = READER.read(pod)
        READER.trim(pod, keep=["kept"])
        assert READER.read(pod) == before
        assert pod.metadata.annotations == {REQUEST_ANNOTATION: "{}", "gas-deny": "card1", "kept": "z"}
        assert pod.spec.containers[0].resources.limits == limits
        assert pod.metadata.labels == {"a": "b"}


def test_trim_removes_containers_of_pod_without_cards():
    pod = build_labelled_pod({"cpu": "1"}, {"x": "y"})
    READER.trim(pod)
    assert (pod.spec.containers, pod.metadata.annotations, pod.ref.uid) == ([], {}, "u")
    assert pod.metadata.labels is None


def build_labelled_pod(limits, annotations):
    metadata = {"name": "p", "uid": "u", "labels": {"a": "b"}, "annotations": annotations}
    return msgspec.convert({"metadata": metadata, "spec": {"containers": [container(**limits)]}}, Pod)


def test_dialect_of_pod_is_first_dialect_named_by_any_container():
    assert read(container("a", gcu=1), container("b", memory=1), container("c", gcu=1)).dialect.name == "native"
    assert read(container("a", gcu=1), init=[container("i", **{"gpu.intel.com/xe": 1})]).dialect.name == "gcushare"


@pytest.mark.parametrize("policy", [None, "Never", "OnFailure"])
def test_init_container_without_restart_policy_always_is_not_a_sidecar(policy):
    assert read({"name": "c"}, init=[{**container("i", memory=1), "restartPolicy": policy}]).order[0][1] is Kind.INIT
