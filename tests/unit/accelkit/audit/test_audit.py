from __future__ import annotations

import msgspec
import pytest

from accelkit.audit.comparison import AuditEvidence, audit
from accelkit.errors import AssignmentError
from accelkit.inspection.inspection import view
from accelkit.ledger.feed import LedgerFeed
from accelkit.ledger.ledger import Ledger
from accelkit.model.assignment import ASSIGNMENT_ANNOTATION, MOVING, Assignment, Share, encode_assignment
from accelkit.model.card import Card, Health
from accelkit.model.inventory import INVENTORY_ANNOTATION, Inventory, encode_inventory
from accelkit.model.observed_allocations import Allocations, HeldDevices, HeldPod, StrangeProcess
from accelkit.model.pod import Node, Pod
from accelkit.vendors.dialects import load_dialects
from accelkit.vendors.pod_reading import PodReader

GIB = 2**30
CARDS = (Card("a", "v", "m", 16 * GIB), Card("b", "v", "m", 16 * GIB, health=Health.UNHEALTHY))
READER = PodReader(load_dialects(["native"]))
QUIET = Allocations("n", (), processes=())


def pod(name, containers, *, admitted=True, init=(), **more):
    """A pod with `containers` as {name: (card, GiB)}."""
    shares = {c: (Share(card, units * GIB),) for c, (card, units) in containers.items()}
    spec = [{"name": c, "resources": {"limits": {"accelkit.io/memory": str(u)}}} for c, (_, u) in containers.items()]
    body = {
        "metadata": {
            "name": name,
            "namespace": "d",
            "uid": f"uid-{name}",
            "annotations": {ASSIGNMENT_ANNOTATION: encode_assignment(Assignment({**shares, **more}))},
        },
        "spec": {
            "nodeName": "n",
            "containers": [each for each in spec if each["name"] not in init],
            "initContainers": [each for each in spec if each["name"] in init],
        },
        "status": {"phase": "Running", **({"startTime": "now"} if admitted else {})},
    }
    return msgspec.convert(body, Pod)


def inspection(pods, cards=CARDS):
    ledger = Ledger()
    feed = LedgerFeed(ledger, load_dialects(["native"]))
    text = encode_inventory(Inventory(GIB, cards))
    feed.replace_nodes(
        [msgspec.convert({"metadata": {"name": "n", "annotations": {INVENTORY_ANNOTATION: text}}}, Node)]
    )
    feed.replace_pods(list(pods))
    return view(ledger.list_nodes())


def held(**pods):
    """What a kubelet shows, as `p={"c": {"a": 4}}`."""
    found = [HeldPod("d", name, {c: HeldDevices(memory=m) for c, m in c_s.items()}) for name, c_s in pods.items()]
    return Allocations("n", tuple(found), processes=())


def findings(pods, allocations=QUIET, *, ledger=None, policies=None):
    seen = inspection(pods)
    found = audit(AuditEvidence(seen, list(map(READER.read, pods)), {"n": allocations}, ledger or seen, policies or {}))
    return [(finding.kind, finding.message) for finding in found.findings]


def test_sides_that_agree_have_no_findings():
    pods = [pod("p", {"c": ("a", 4)})]
    assert findings(pods, held(p={"c": {"a": 4}})) == []


def test_another_card_than_assigned_is_a_finding():
    pods = [pod("p", {"c": ("a", 4)})]
    assert findings(pods, held(p={"c": {"b": 4}})) == [
        ("kubelet_differs", "pod d/p [c] is assigned 4 GiB of a; its kubelet gave 4 devices of b")
    ]


def test_devices_are_compared_in_the_unit_of_their_day():
    pods = [pod("p", {"c": ("a", 4)})]
    assert findings(pods, held(p={"c": {"a": 8}})) == []


def test_a_pod_for_which_its_kubelet_holds_nothing_is_a_finding_once_it_is_admitted():
    message = "pod d/p [c] is assigned 4 GiB of a; its kubelet holds nothing for it"
    assert findings([pod("p", {"c": ("a", 4)})]) == [("not_allocated", message)]
    assert findings([pod("p", {"c": ("a", 4)}, admitted=False)]) == []


def test_of_plain_init_containers_nothing_is_expected():
    pods = [pod("p", {"i": ("a", 8), "c": ("a", 4)}, init=["i"])]
    assert findings(pods, held(p={"c": {"a": 4}})) == []


def test_a_pod_that_only_the_kubelet_knows_is_a_finding():
    assert findings([], held(ghost={"c": {"a": 4}})) == [
        ("unknown_pod", "the kubelet of n holds a for pod d/ghost, which has no assignment")
    ]


def test_a_ledger_that_counts_otherwise_is_a_finding():
    assert findings([], ledger=inspection([pod("old", {"c": ("a", 4)})])) == [
        (
            "ledger_differs",
            "pod d/old [c] on card a of n: the ledger counts 4 GiB, the assignment says nothing",
        )
    ]


def test_what_changes_hands_just_now_is_no_difference():
    moving = pod("p", {"c": ("a", 4)}, **{MOVING: (Share("b", 1),)})
    found = audit(
        AuditEvidence(
            inspection([moving], (*CARDS[:1], Card("b", "v", "m", GIB))),
            [READER.read(moving)],
            {"n": held(p={"c": {"a": 4}})},
            inspection([pod("p", {"c": ("a", 4)})], (*CARDS[:1], Card("b", "v", "m", GIB))),
            {},
        )
    )
    assert found.findings == []


def test_a_pod_on_an_unhealthy_card_is_a_finding():
    pods = [pod("p", {"c": ("b", 4)})]
    assert findings(pods, held(p={"c": {"b": 4}})) == [
        ("unhealthy_card_in_use", "card b of n is unhealthy and used by d/p")
    ]


def test_a_process_of_no_pod_is_a_finding_with_its_memory_where_that_is_known():
    allocations = Allocations("n", (), (StrangeProcess("a", 7, "miner", GIB), StrangeProcess("a", 8, "top")))
    assert [message for _, message in findings([], allocations)] == [
        "process 7 (miner, 1 GiB) is on card a of n and belongs to no pod",
        "process 8 (top) is on card a of n and belongs to no pod",
    ]


@pytest.mark.parametrize(("policy", "count"), [("none", 0), ("single-numa-node", 1), ("best-effort", 1)])
def test_a_topology_policy_that_can_overrule_us_is_a_finding(policy, count):
    assert [kind for kind, _ in findings([], policies={"n": policy})] == ["topology_policy"] * count


def test_broken_constraints_stay_visible():
    broken = pod("p", {"c": ("a", 4)})
    text = encode_assignment(Assignment({"c": (Share("a", 4 * GIB),)}, broken=("container c is elsewhere",)))
    broken.metadata.annotations[ASSIGNMENT_ANNOTATION] = text
    assert findings([broken], held(p={"c": {"a": 4}})) == [("constraint_broken", "pod d/p: container c is elsewhere")]


def test_what_could_not_be_compared_is_noted():
    found = audit(AuditEvidence(inspection([]), [], {"n": AssignmentError("its agent passes nothing on")}, None, {}))
    assert found.findings == []
    assert found.notes == [
        "the extender was not asked; give --extender to compare its ledger",
        "the kubelet of n is not compared: its agent passes nothing on",
    ]
