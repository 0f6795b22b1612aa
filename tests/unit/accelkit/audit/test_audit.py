import msgspec
import pytest
from support.pods import build_container, read_pod

from accelkit.audit.comparison import AuditEvidence, AuditFinding, audit
from accelkit.errors import AssignmentError
from accelkit.inspection.inspection import view
from accelkit.ledger.feed import LedgerFeed
from accelkit.ledger.ledger import Ledger
from accelkit.model.assignment import MOVING, Assignment, Share, encode_assignment
from accelkit.model.card import Card, Health
from accelkit.model.inventory import FormerUnit, Inventory, encode_inventory
from accelkit.model.keys import ASSIGNMENT_ANNOTATION, INVENTORY_ANNOTATION
from accelkit.model.observed_allocations import Allocations, HeldDevices, HeldPod, StrangeProcess
from accelkit.model.pod import Container, Node
from accelkit.vendors.dialects import load_dialects
from accelkit.vendors.pod_reading import PodReader

GIB = 2**30
CARDS = (Card("a", "v", "m", 16 * GIB), Card("b", "v", "m", 16 * GIB, health=Health.UNHEALTHY))
READER = PodReader(load_dialects(["native"]))
QUIET = Allocations("n", (), processes=())


def pod(name, containers, *, admitted=True, init=(), **more):
    """A pod with `containers` as {name: (card, GiB)}."""
    shares = {c: (Share(card, units * GIB),) for c, (card, units) in containers.items()}
    spec = [build_container({"accelkit.io/memory": str(units)}, name) for name, (_, units) in containers.items()]
    return read_pod(
        name,
        *(each for each in spec if each["name"] not in init),
        initContainers=[each for each in spec if each["name"] in init],
        assigned={**shares, **more},
        status={"phase": "Running", **({"startTime": "now"} if admitted else {})},
        nodeName="n",
    )


def inspection(pods, cards=CARDS, former_units=()):
    ledger = Ledger()
    feed = LedgerFeed(ledger, load_dialects(["native"]))
    text = encode_inventory(Inventory(GIB, cards, former_units=former_units))
    feed.replace_nodes(
        [msgspec.convert({"metadata": {"name": "n", "annotations": {INVENTORY_ANNOTATION: text}}}, Node)]
    )
    feed.replace_pods(list(pods))
    return view(ledger.list_nodes())


def held(**pods):
    """What a kubelet shows, as `p={"c": {"a": 4}}`."""
    found = [HeldPod("d", name, {c: HeldDevices(memory=m) for c, m in c_s.items()}) for name, c_s in pods.items()]
    return Allocations("n", tuple(found), processes=())


def compare(pods, allocations=QUIET, *, ledger=None, policies=None, former_units=()):
    seen = inspection(pods, former_units=former_units)
    return audit(AuditEvidence(seen, list(map(READER.read, pods)), {"n": allocations}, ledger or seen, policies or {}))


def findings(*sides, **more):
    return [(finding.kind, finding.message) for finding in compare(*sides, **more).findings]


def test_matching_evidence_has_no_findings():
    pods = [pod("p", {"c": ("a", 4)})]
    assert findings(pods, held(p={"c": {"a": 4}})) == []


def test_devices_are_compared_in_unit_at_allocation_time():
    old, new = pod("old", {"c": ("a", 4)}), pod("new", {"c": ("a", 4)})
    old.status.start_time, new.status.start_time = "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"
    old.spec.containers[0].resources.limits = {"accelkit.io/memory": "8"}
    former_units = (FormerUnit(GIB // 2, 1_767_225_600),)
    given = held(old={"c": {"a": 8}}, new={"c": {"a": 4}})
    assert findings([old, new], given, former_units=former_units) == []
    assert [kind for kind, _ in findings([old, new], given)] == ["disbelieved_assignment"]


def test_admitted_pod_without_devices_in_kubelet_is_finding():
    message = "pod d/p [c] is assigned 4 GiB of a, but its kubelet does not report any devices"
    assert findings([pod("p", {"c": ("a", 4)})]) == [("not_allocated", message)]
    assert findings([pod("p", {"c": ("a", 4)}, admitted=False)]) == []


def test_plain_init_container_needs_no_devices():
    pods = [pod("p", {"i": ("a", 8), "c": ("a", 4)}, init=["i"])]
    assert findings(pods, held(p={"c": {"a": 4}})) == []


def test_different_share_in_ledger_is_finding():
    assert findings([], ledger=inspection([pod("old", {"c": ("a", 4)})])) == [
        (
            "ledger_differs",
            "pod d/old [c] on card a of n: the ledger contains 4 GiB, but the assignment contains nothing",
        )
    ]


def test_share_that_is_being_moved_is_not_finding():
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


def test_process_without_pod_is_finding_with_its_memory_if_known():
    allocations = Allocations("n", (), (StrangeProcess("a", 7, "miner", GIB), StrangeProcess("a", 8, "top")))
    assert [message for _, message in findings([], allocations)] == [
        "process 7 (miner, 1 GiB) uses card a of n and does not belong to a pod",
        "process 8 (top) uses card a of n and does not belong to a pod",
    ]


@pytest.mark.parametrize(
    ("policy", "count"), [("none", 0), ("best-effort", 1), ("restricted", 1), ("single-numa-node", 1)]
)
def test_topology_policy_that_can_override_placement_is_finding(policy, count):
    assert [kind for kind, _ in findings([], policies={"n": policy})] == ["topology_policy"] * count


def test_missing_evidence_is_noted():
    silent = {"n": None}
    found = audit(AuditEvidence(inspection([]), [], silent, None, {}, ["the kubelet of n does not answer"]))
    assert found.findings == []
    assert found.notes == [
        "the kubelet of n does not answer",
        "the ledger is not compared, because it was not requested",
        "the kubelet of n is not compared: its agent publishes no allocations",
    ]


def test_unreadable_allocations_are_finding():
    broken = {"n": AssignmentError("cannot read the observed allocations: JSON is malformed")}
    seen = inspection([])
    (found,) = audit(AuditEvidence(seen, [], broken, seen, {})).findings
    assert (found.node, found.kind) == ("n", "unreadable_allocations")
    assert found.message.startswith(f"the kubelet of n is not compared: {broken['n'].message}; ")


def test_accounting_finding_is_included_in_audit():
    pods = [pod("p", {"c": ("a", 12)}), pod("q", {"c": ("a", 8)})]
    found = compare(pods, held(p={"c": {"a": 12}}, q={"c": {"a": 8}}))
    message = "card a of n has 16 GiB, but its shares use 20 GiB"
    assert found.findings == [AuditFinding("n", "a", "", "over_capacity", message)]


def test_each_finding_names_its_node_card_and_pod():
    broken = pod("p", {"c": ("b", 4)})
    text = encode_assignment(Assignment({"c": (Share("b", 4 * GIB),)}, broken=("container c is elsewhere",)))
    broken.metadata.annotations[ASSIGNMENT_ANNOTATION] = text
    kubelet = Allocations(
        "n",
        (HeldPod("d", "p", {"c": HeldDevices({"a": 4})}), HeldPod("d", "ghost", {"c": HeldDevices({"a": 4})})),
        (StrangeProcess("a", 7, "miner"),),
    )
    pods = [broken, pod("q", {"c": ("a", 4)})]
    found = compare(pods, kubelet, ledger=inspection(pods[1:]), policies={"n": "restricted"}).findings
    assert [(each.kind, each.node, each.card, each.pod) for each in found] == [
        ("ledger_differs", "n", "b", "d/p"),
        ("kubelet_differs", "n", "", "d/p"),
        ("not_allocated", "n", "", "d/q"),
        ("unknown_pod", "n", "", "d/ghost"),
        ("strange_process", "n", "a", ""),
        ("unhealthy_card_in_use", "n", "b", ""),
        ("constraint_broken", "n", "", "d/p"),
        ("topology_policy", "n", "", ""),
    ]


def whole(name, *cards):
    """A pod that was given cards whole."""
    found = pod(name, {})
    assignment = Assignment({"c": tuple(Share(card, 16 * GIB, whole=True) for card in cards)})
    found.metadata.annotations[ASSIGNMENT_ANNOTATION] = encode_assignment(assignment)
    limits = {"limits": {"accelkit.io/cards": str(len(cards))}}
    found.spec.containers.append(msgspec.convert({"name": "c", "resources": limits}, Container))
    return found


def test_whole_cards_match_in_any_order():
    allocations = Allocations("n", (HeldPod("d", "p", {"c": HeldDevices(whole=("b", "a"))}),), processes=())
    assert [kind for kind, _ in findings([whole("p", "a", "b")], allocations)] == ["unhealthy_card_in_use"]


@pytest.mark.parametrize(
    ("devices", "given"),
    [
        (HeldDevices(whole=("b",)), "card b"),
        (HeldDevices(whole=("a", "b")), "card a, card b"),
        (HeldDevices({"b": 2, "a": 4}, ("c",)), "4 devices of a, 2 devices of b, card c"),
    ],
)
def test_another_whole_card_than_assigned_is_a_finding(devices, given):
    allocations = Allocations("n", (HeldPod("d", "p", {"c": devices}),), processes=())
    assert findings([whole("p", "a")], allocations) == [
        ("kubelet_differs", f"pod d/p [c] is assigned the whole card of a, but its kubelet allocated {given}")
    ]


def test_different_memory_split_than_assigned_is_finding():
    two = pod("p", {"c": ("a", 8)})
    shares = (Share("a", 4 * GIB), Share("b", 4 * GIB))
    two.metadata.annotations[ASSIGNMENT_ANNOTATION] = encode_assignment(Assignment({"c": shares}))
    found = [message for kind, message in findings([two], held(p={"c": {"a": 6, "b": 2}})) if "kubelet" in kind]
    assert found == [
        "pod d/p [c] is assigned 4 GiB of a, 4 GiB of b, but its kubelet allocated 6 devices of a, 2 devices of b"
    ]
    assert not any("kubelet" in kind for kind, _ in findings([two], held(p={"c": {"a": 4, "b": 4}})))


def test_each_container_is_compared_with_its_own_devices():
    pods = [pod("p", {"c": ("a", 4), "s": ("a", 2)})]
    assert findings(pods, held(p={"c": {"a": 4}})) == [
        ("kubelet_differs", "pod d/p [s] is assigned 2 GiB of a, but its kubelet does not report any devices")
    ]


def test_a_container_without_cards_is_not_compared():
    with_plain = pod("p", {"c": ("a", 4)})
    with_plain.spec.containers.insert(0, msgspec.convert({"name": "plain"}, Container))
    assert findings([with_plain], held(p={"c": {"a": 4}})) == []


def test_a_pod_of_another_node_is_not_compared_with_this_kubelet():
    elsewhere = pod("p", {"c": ("a", 4)})
    elsewhere.spec.node_name = "m"
    seen = inspection([])
    assert audit(AuditEvidence(seen, [READER.read(elsewhere)], {"n": QUIET}, seen, {})).findings == []


def test_unreadable_assignment_is_finding_in_addition_to_accounting():
    garbled = pod("p", {"c": ("a", 4)})
    garbled.metadata.annotations[ASSIGNMENT_ANNOTATION] = "garbled"
    assert [kind for kind, _ in findings([garbled])] == ["unassigned_pod", "disbelieved_assignment"]


def test_shared_card_counted_as_whole_in_ledger_is_finding():
    found = findings([pod("p", {"c": ("a", 16)})], held(p={"c": {"a": 16}}), ledger=inspection([whole("p", "a")]))
    difference = "the ledger contains the whole card, but the assignment contains 16 GiB"
    assert found == [("ledger_differs", f"pod d/p [c] on card a of n: {difference}")]


def test_unhealthy_card_is_finding_only_if_used_and_lists_each_pod_once():
    assert findings([]) == []
    pods = [pod("q", {"c": ("b", 4), "s": ("b", 4)}), pod("p", {"c": ("b", 4)})]
    kubelet = held(q={"c": {"b": 4}, "s": {"b": 4}}, p={"c": {"b": 4}})
    assert findings(pods, kubelet) == [("unhealthy_card_in_use", "card b of n is unhealthy and used by d/p, d/q")]


def test_number_of_pods_with_advisory_memory_limits_is_noted():
    pods = [pod("p", {"c": ("a", 4)}), pod("q", {"c": ("a", 4)})]
    kept, free = (HeldPod("d", n, {"c": HeldDevices({"a": 4})}, by) for n, by in (("p", "mps"), ("q", "")))
    assert compare(pods, Allocations("n", (kept, free), ())).notes == [
        "1 of 2 pods of n have only advisory memory limits"
    ]
    assert compare(pods[:1], Allocations("n", (kept,), ())).notes == []


def test_missing_process_scan_is_noted():
    found = compare([], Allocations("n", (), processes=None))
    assert (found.findings, found.notes) == ([], ["processes on the cards of n were not scanned"])


def test_assignments_are_summed_even_if_missing_from_ledger():
    pods = [pod("p", {"c": ("a", 10)}), pod("q", {"c": ("a", 8)})]
    seen = inspection(pods[:1])
    evidence = AuditEvidence(seen, list(map(READER.read, pods)), {}, seen, {})
    assert audit(evidence).findings == [
        AuditFinding(
            "n", "a", "", "over_capacity", "card a of n has 16 GiB, but the assignments of its pods use 18 GiB"
        )
    ]
    assert [each.kind for each in audit(msgspec.structs.replace(evidence, pods=evidence.pods[:1])).findings] == []


def test_share_that_is_being_moved_does_not_fill_card():
    moving = {MOVING: (Share("a", 8 * GIB),)}
    pods = [pod("p", {"c": ("b", 8)}, **moving), pod("q", {"c": ("a", 16)})]
    seen = inspection(())
    evidence = AuditEvidence(seen, list(map(READER.read, pods)), {}, seen, {})
    assert [each.kind for each in audit(evidence).findings] == []


def test_unpublished_allocations_are_finding_and_published_ones_are_compared():
    pods = [pod("p", {"c": ("a", 4)}), pod("q", {"c": ("a", 2)})]
    shown = msgspec.structs.replace(held(p={"c": {"a": 4}}), left_out=2)
    ((kind, message),) = findings(pods, shown)
    assert (kind, message.startswith("not all allocations of n are published: 2 pods")) == ("not_published", True)
    differs = msgspec.structs.replace(held(p={"c": {"a": 3}}), left_out=2)
    assert [kind for kind, _ in findings(pods, differs)] == ["not_published", "kubelet_differs"]
