"""What users write on their own pods neither stops the ledger nor makes it count anything else than their limits."""

import json

import pytest
from support.nodes import read_node
from support.pods import build_container, read_pod
from support.requests import build_request

from accelkit.ledger import bound_pods
from accelkit.ledger.feed import LedgerFeed
from accelkit.ledger.ledger import Ledger
from accelkit.model.assignment import Share
from accelkit.model.card import Card
from accelkit.model.inventory import FormerUnit, Inventory
from accelkit.model.keys import ASSIGNMENT_ANNOTATION
from accelkit.placement.policies import Policy
from accelkit.vendors.dialects import load_dialects
from accelkit.vendors.pod_reading import PodReader

GIB = 2**30
CARDS = tuple(Card(name, "v", "m", 16 * GIB, index=number, minor=number) for number, name in enumerate("ab"))
MEMORY = "accelkit.io/memory"
DIALECTS = ("native", "gcushare", "aliyun", "gas", "gcushare-2025")


class World:
    def __init__(self):
        self.ledger = Ledger(unit_bytes=GIB)
        self.feed = LedgerFeed(self.ledger, load_dialects(DIALECTS))
        self.node()

    def node(self, name="n", *, kind="MODIFIED", unit_bytes=GIB, cards=CARDS, former_units=()):
        inventory = Inventory(unit_bytes, cards, former_units=former_units)
        self.feed.take_node_event(kind, read_node(name, inventory))

    def pod(self, name="p", *, limits=None, on="n", kind="MODIFIED", started=None, containers=None, **annotations):
        shares = containers and {c: tuple(each) for c, each in containers.items()}
        container, metadata = build_container(limits or {MEMORY: "1"}), {"annotations": annotations}
        status = {"startTime": started}
        body = read_pod(name, container, assigned=shares or None, metadata=metadata, status=status, nodeName=on)
        self.feed.take_pod_event(kind, body)

    def held(self, name="n"):
        entry = self.ledger.find_node(name)
        return {card: (use.used_bytes // GIB, use.used_compute) for card, use in entry.uses.items()}

    def free(self):
        return [state.free_bytes // GIB for state in self.ledger.find_node("n").list_card_states()]


@pytest.fixture
def world():
    return World()


@pytest.mark.parametrize("text", ["²", "1" * 5000, "-2", "+1", "1_0", " 1", "٣"], ids=range(7))
@pytest.mark.parametrize(
    ("resource", "key", "form"),
    [
        ("enflame.com/gcu-memory", "enflame.com/gcu-device-id", "{}"),
        ("aliyun.com/gpu-mem", "ALIYUN_COM_GPU_MEM_IDX", "{}"),
        ("enflame.com/shared-gcu", "enflame.com/gcu-assigned-minor", "{}"),
        ("gpu.intel.com/i915", "gas-container-cards", "card{}"),
    ],
)
def test_invalid_card_number_leaves_only_its_pod_unassigned(world, resource, key, form, text):
    world.pod(limits={resource: "1"}, **{key: form.format(text)})
    world.pod("q", containers={"c": [Share("b", GIB)]})
    (unassigned,) = world.ledger.find_node("n").unassigned.values()
    assert len(unassigned.problem) <= 200
    assert world.held() == {"b": (1, 0)}
    assert world.feed.invalid_assignments == 1


@pytest.mark.parametrize("key", ["gas-allow", "gas-deny"])
def test_invalid_card_name_in_gas_annotation_is_refused(world, key):
    for text in ("card²", "card" + "1" * 5000):
        world.pod(on="", limits={"gpu.intel.com/i915": "1"}, **{key: text})
        refusal = str(world.feed.pending["uid-p"].refusal)
        assert f"{key} contains invalid names: card" in refusal
        assert len(refusal) < 300


def test_assignment_of_unknown_container_is_not_charged(world):
    world.pod(
        containers={"c": [Share("a", GIB)], "ghost": [Share("a", 15 * GIB), Share("b", 16 * GIB, 1000, whole=True)]}
    )
    assert world.held() == {"a": (1, 0)}
    assert world.feed.invalid_assignments == 1


@pytest.mark.parametrize(("units", "said"), [(1, 16 * GIB), (16, 16)])
def test_pod_is_charged_by_limits_and_not_by_assigned_amounts(world, units, said):
    world.pod(limits={MEMORY: str(units)}, containers={"c": [Share("a", said)]})
    assert world.held() == {"a": (units, 0)}
    full = build_request()
    assert world.ledger.place(world.ledger.find_node("n"), full, Policy.BINPACK).containers["c"][0].card == "b"


def test_share_of_unknown_card_is_charged_on_all_cards_until_corrected(world):
    world.pod(limits={MEMORY: "4"}, containers={"c": [Share("z", 4 * GIB)]})
    assert (world.held(), world.free()) == ({}, [12, 12])
    world.pod(limits={MEMORY: "4"}, containers={"c": [Share("b", 4 * GIB)]})
    assert world.free() == [16, 12]


def test_first_observed_compute_is_charged_until_pod_is_deleted(world):
    world.pod(containers={"c": [Share("a", GIB, 250)]})
    for compute in (0, 1000):
        world.pod(containers={"c": [Share("a", GIB, compute)]})
        assert world.held() == {"a": (1, 250)}
    world.pod(**{ASSIGNMENT_ANNOTATION: "garbled", "accelkit.io/request": '{"c": {"compute": 1000}}'})
    assert [state.free_compute for state in world.ledger.find_node("n").list_card_states()] == [750, 750]
    world.pod(containers={"c": [Share("a", GIB)]})
    assert world.held() == {"a": (1, 250)}
    world.pod(kind="DELETED")
    world.pod("next", containers={"c": [Share("a", GIB, 100)]})
    assert world.held() == {"a": (1, 100)}


def test_reserved_compute_is_charged_instead_of_annotated_compute(world):
    world.pod(on="", **{"accelkit.io/request": '{"c": {"compute": 300}}'})
    pending = world.feed.pending["uid-p"]
    world.ledger.reserve(pending.pod.ref, "n", pending.request, Policy.BINPACK)
    world.pod(containers={"c": [Share("a", GIB, 999)]})
    assert world.held() == {"a": (1, 300)}


def test_unit_of_pod_follows_from_its_start_time(world):
    world.node(unit_bytes=GIB // 4, former_units=(FormerUnit(GIB, 1_767_225_600), FormerUnit(GIB // 2, 1_767_225_700)))
    starts = {"2026-01-01T00:00:00Z": 4, "2026-01-01T00:00:01Z": 2, "2026-01-01T00:01:41Z": 1, None: 1, "now": 1}
    for number, (started, expected) in enumerate(starts.items()):
        world.pod(f"p{number}", limits={MEMORY: "4"}, started=started, containers={"c": [Share("a", 99 * GIB)]})
        assert world.held() == {"a": (expected, 0)}, started
        world.pod(f"p{number}", kind="DELETED")


def test_pods_are_charged_again_after_inventory_of_node_changes(world):
    world.pod(on="late", limits={MEMORY: "4"}, containers={"c": [Share("z", 99 * GIB)]})
    assert world.held("late") == {"z": (4, 0)}
    world.node("late", unit_bytes=2 * GIB)
    assert world.held("late") == {}
    world.pod(on="late", limits={MEMORY: "4"}, containers={"c": [Share("a", 99 * GIB)]})
    assert world.held("late") == {"a": (8, 0)}
    world.node("late", unit_bytes=GIB)
    assert world.held("late") == {"a": (4, 0)}


def test_rejected_assignment_is_counted_once_per_pod_in_repeated_events(world, caplog):
    for number in range(5):
        world.pod(containers={"c": [Share("a", number)]})
    world.pod("q", containers={"c": [Share("z", 1)]})
    for _ in range(5):
        world.pod("q", containers={"c": [Share("z", 2)]})
    assert world.feed.invalid_assignments == 2
    assert len(caplog.records) == 3


def test_error_for_long_annotation_is_short(world):
    name = "x" * 60
    for text in (
        "y" * 250_000,
        json.dumps({name + str(n): {} for n in range(800)}),
        '{"c": {"' + "z" * 60_000 + '": 1}}',
    ):
        world.pod(on="", **{"accelkit.io/request": text})
        assert len(str(world.feed.pending["uid-p"].refusal)) <= 402
    world.pod(**{ASSIGNMENT_ANNOTATION: "y" * 250_000})
    (unassigned,) = world.ledger.find_node("n").unassigned.values()
    assert len(unassigned.problem) <= 200


def test_deleted_pods_on_unknown_nodes_leave_no_state(world):
    for number in range(100):
        world.pod(f"p{number}", on=f"none-{number}", containers={"c": [Share("a", GIB)]})
        world.pod(f"u{number}", on=f"none-{number}")
        world.pod(f"p{number}", on=f"none-{number}", kind="DELETED")
        world.pod(f"u{number}", on=f"none-{number}", kind="DELETED")
    world.pod("p", containers={"c": [Share("a", GIB)]})
    world.feed.replace_pods([])
    bound = world.feed._bound
    assert (bound._by_node, bound._compute, world.feed.created, len(world.ledger)) == ({}, {}, {}, 0)
    assert (world.feed._hosts._pods, world.feed._hosts._where) == ({}, {})
    assert [entry.name for entry in world.ledger.list_nodes()] == ["n"]
    assert world.ledger.table.rows == 2


def test_unreadable_pod_blocks_its_node_until_deletion_and_is_logged_once(world, monkeypatch, caplog):
    def fail(*_):
        raise ValueError("what nobody thought of")

    monkeypatch.setattr(bound_pods, "check_assignment", fail)
    for number in range(1, 4):
        world.pod(containers={"c": [Share("a", GIB)]})
        world.node(unit_bytes=GIB * number)
    world.node()
    monkeypatch.undo()
    assert all(free <= 0 for free in world.free())
    assert (world.feed.unreadable, len(caplog.records)) == (1, 1)
    assert "what nobody thought of" in caplog.text
    world.pod(kind="DELETED")
    world.pod("q", containers={"c": [Share("a", GIB)]})
    assert world.held() == {"a": (1, 0)}


def test_unreadable_pending_pod_is_not_charged(world, monkeypatch):
    monkeypatch.setattr(PodReader, "read", lambda *_: 1 / 0)
    world.pod(on="")
    assert world.free() == [16, 16]


def test_unreadable_node_has_problem_until_next_readable_event(world, monkeypatch):
    monkeypatch.setattr("accelkit.ledger.feed.read_cordon", lambda _: 1 / 0)
    world.node(unit_bytes=1)
    monkeypatch.undo()
    assert world.ledger.find_node("n").problem.detail == "the node cannot be read"
    world.node(unit_bytes=GIB // 2)
    world.node()
    assert world.ledger.find_node("n").problem is None


def test_undecodable_pod_blocks_its_node_until_deletion(world):
    text = b'{"metadata": {"name": "p", "namespace": "d", "uid": "u"}, "spec": {"nodeName": "n", "containers": 7}}'
    world.feed.take_unreadable_pod("ADDED", text)
    assert all(free <= 0 for free in world.free())
    world.feed.take_unreadable_pod("DELETED", text)
    assert world.free() == [16, 16]
    for nothing in (b"7", b"\xff", b'{"metadata": {"uid": 7}}'):
        world.feed.take_unreadable_pod("ADDED", nothing)
    assert world.free() == [16, 16]
