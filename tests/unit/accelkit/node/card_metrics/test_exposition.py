"""What an agent shows of its cards and their holders: names, units and labels, and who is charged with a card."""

import msgspec
import pytest
from fake_api.server import FakeApi
from prometheus_client import CollectorRegistry, generate_latest
from support.pods import build_container, read_pod

from accelkit.inspection.card_faults import find_card_fault
from accelkit.model.assignment import Share
from accelkit.model.card import Card, Health
from accelkit.model.card_loss import GONE_FROM_NODE
from accelkit.model.inventory import Inventory
from accelkit.node.card_metrics.collector import CardCollector
from accelkit.node.card_metrics.exposition import register_card_metrics
from accelkit.node.card_metrics.holders import list_holdings
from accelkit.node.card_metrics.reading import CardReading
from accelkit.node.discovery import FoundCard
from accelkit.node.health.card_history import CardHistory
from accelkit.node.health.signals import Signals
from accelkit.node.node_cards import NodeCards
from accelkit.node.pods import NodePods
from accelkit.vendors.dialects import load_dialect
from accelkit.vendors.profiles import load_profiles

GIB = 2**30
CARD = Card("GPU-a", "nvidia", "NVIDIA H200", 141 * GIB, bdf="0000:3b:00.0", driver_version="570.1")
READING = CardReading(
    utilization_ratio=0.37,
    memory_used_bytes=3 * GIB,
    temperature_celsius=61,
    power_watts=412.5,
    energy_joules=9000.5,
    sm_clock_hertz=1.98e9,
    memory_clock_hertz=2.619e9,
    ecc_corrected=7,
    ecc_uncorrected=0,
)
REST = 'model="NVIDIA H200",node="n"'
OF_CARD = '{card="GPU-a",model="NVIDIA H200",node="n",vendor="nvidia"'
OF_POD = '{card="GPU-a",container="c",model="NVIDIA H200",namespace="d",node="n",pod="one",vendor="nvidia"}'
# The contract with dashboards and alerts: names, base units, labels.
GOLDEN = [
    f'accelerator_info{{card="GPU-a",driver_version="570.1",{REST},pci_bus_id="0000:3b:00.0",vendor="nvidia"}} 1.0',
    'accelerator_health_info{card="GPU-a",model="NVIDIA H200",node="n",state="healthy",vendor="nvidia"} 1.0',
    f"accelerator_cordoned{OF_CARD}}} 0.0",
    f"accelerator_last_xid{OF_CARD}}} 31.0",
    f"accelerator_utilization_ratio{OF_CARD}}} 0.37",
    f"accelerator_pod_utilization_ratio{OF_POD} 0.37",
    f"accelerator_memory_used_bytes{OF_CARD}}} 3.221225472e+09",
    f"accelerator_pod_memory_used_bytes{OF_POD} 3.221225472e+09",
    f"accelerator_memory_total_bytes{OF_CARD}}} 1.51397597184e+11",
    f"accelerator_temperature_celsius{OF_CARD}}} 61.0",
    f"accelerator_power_usage_watts{OF_CARD}}} 412.5",
    f"accelerator_pod_power_usage_watts{OF_POD} 412.5",
    f"accelerator_energy_joules_total{OF_CARD}}} 9000.5",
    f"accelerator_pod_energy_joules_total{OF_POD} 9000.5",
    f"accelerator_sm_clock_hertz{OF_CARD}}} 1.98e+09",
    f"accelerator_memory_clock_hertz{OF_CARD}}} 2.619e+09",
    f"accelerator_ecc_corrected_errors_total{OF_CARD}}} 7.0",
    f"accelerator_ecc_uncorrected_errors_total{OF_CARD}}} 0.0",
    'accelerator_share_memory_bytes{card="GPU-a",container="c",namespace="d",pod="one"} 4.294967296e+09',
]


class Agent:
    """The pods of a node, and what its agent shows of two cards."""

    def __init__(self):
        self.pods = NodePods(FakeApi(), "n", load_dialect("native"))
        self.cards = [CARD, msgspec.structs.replace(CARD, id="GPU-b", memory_bytes=None)]
        self.pods.set_cards(NodeCards({each.id: each for each in self.cards}, GIB))

    def pod(self, name, containers, *, init=(), running=(), admitted=True, assigned=True):
        """A pod whose containers hold {card: GiB, or 0 for the whole card}."""
        shares = {
            container: tuple(
                Share(card, gib * GIB if gib else 141 * GIB, 0 if gib else 1000, whole=not gib)
                for card, gib in held.items()
            )
            for container, held in containers.items()
        }
        made = {}
        for container, held in containers.items():
            resource = "accelkit.io/cards" if 0 in held.values() else "accelkit.io/memory"
            made[container] = build_container({resource: str(sum(held.values()) or len(held))}, container)
        pod = read_pod(
            name,
            *(made[each] for each in containers if each not in init),
            initContainers=[made[each] for each in init],
            assigned=shares if assigned else None,
            metadata={"uid": name},
            nodeName="n",
            status={
                "phase": "Running",
                "startTime": "2026-01-01T00:00:00Z" if admitted else None,
                "initContainerStatuses": [
                    {"name": each, "containerID": "x", "state": {"running": {}}} for each in running
                ],
            },
        )
        self.pods.take(pod)

    def hold(self):
        return list_holdings(self.pods.list_pods(), {each.id: each for each in self.cards})

    def amounts(self):
        return {(each.pod, each.container, each.card): amount for each, amount in self.hold().memory_bytes.items()}


def show(cards, reading=None, holdings=None, xids=None):
    registry = CollectorRegistry()
    collector = CardCollector(
        "n",
        cards=lambda: cards,
        readings=lambda: {} if reading is None else {"GPU-a": reading},
        holdings=lambda: holdings or list_holdings((), {}),
        last_xids=xids or {},
    )
    registry.register(collector)
    return [each for each in generate_latest(registry).decode().splitlines() if not each.startswith("#")]


@pytest.fixture
def agent():
    return Agent()


def test_metric_names_units_and_labels_are_stable(agent):
    agent.pod("one", {"c": {"GPU-a": 4}})
    shown = show([CARD], READING, agent.hold(), {"GPU-a": 31})
    assert sorted(shown) == sorted(GOLDEN)


def test_unreadable_values_are_omitted_from_metrics():
    unknown = msgspec.structs.replace(CARD, memory_bytes=None, health=Health.UNKNOWN)
    names = {line.partition("{")[0] for line in show([unknown], CardReading(utilization_ratio=0.0))}
    assert names == {
        "accelerator_info",
        "accelerator_health_info",
        "accelerator_cordoned",
        "accelerator_utilization_ratio",
    }


def test_estimated_memory_is_omitted_from_metrics():
    table = msgspec.structs.replace(CARD, estimated=True)
    assert not [line for line in show([table]) if "memory_total" in line]


def test_fault_metric_has_xid_and_no_boot_id():
    broken = msgspec.structs.replace(CARD, fault="xid 79 at 11111111-2222-4333-8444-555555555555.1f")
    (fault,) = (line for line in show([broken]) if line.startswith("accelerator_fault_info"))
    assert 'action="drain-and-reset"' in fault
    assert 'xid="79"' in fault
    assert "1111" not in fault


def test_card_missing_from_discovery_has_state_lost():
    lost = msgspec.structs.replace(CARD, health=Health.UNHEALTHY, health_reason=GONE_FROM_NODE)
    assert [line for line in show([lost]) if 'state="lost"' in line]


@pytest.mark.parametrize(
    ("before", "after", "state"),
    [
        (Signals(present=True), Signals(present=False), "lost"),
        (Signals(present=True, answers=True), Signals(present=True, answers=False), "lost"),
        (Signals(present=True, driver="nvidia", bound=True), Signals(present=True, bound=False), "unhealthy"),
        (Signals(present=True, link_width=16), Signals(present=True, link_width=8), "unhealthy"),
    ],
)
@pytest.mark.parametrize("xids", [(), (79,)])
def test_health_metric_and_card_fault_agree_on_lost_card(before, after, state, xids):
    history = CardHistory()
    for at, signals in enumerate((before, after, after)):
        history.observe(signals, at * 10.0, xids=xids)
    card = msgspec.structs.replace(CARD, health=history.health, health_reason=history.reason)
    assert [line for line in show([card]) if line.startswith("accelerator_health_info") and f'state="{state}"' in line]
    fault = find_card_fault(Inventory(1, (card,)), kernel="", chosen="")
    assert fault.code == {"lost": "CardLost", "unhealthy": "CardUnhealthy"}[state]


def test_card_shared_by_several_pods_has_no_pod_metrics(agent):
    agent.pod("one", {"c": {"GPU-a": 4}, "d": {"GPU-a": 2}})
    assert agent.hold().alone["GPU-a"]._asdict() == {"namespace": "d", "pod": "one", "container": "", "card": "GPU-a"}
    agent.pod("two", {"c": {"GPU-a": 8}})
    assert agent.amounts() == {
        ("one", "c", "GPU-a"): 4 * GIB,
        ("one", "d", "GPU-a"): 2 * GIB,
        ("two", "c", "GPU-a"): 8 * GIB,
    }
    assert agent.hold().alone == {}
    assert not [line for line in show([CARD], READING, agent.hold()) if line.startswith("accelerator_pod_")]


def test_whole_card_share_has_all_memory_and_unknown_memory_is_omitted(agent):
    agent.pod("one", {"c": {"GPU-a": 0}})
    assert agent.amounts() == {("one", "c", "GPU-a"): 141 * GIB}
    assert agent.hold().alone["GPU-a"].pod == "one"
    agent.pod("two", {"c": {"GPU-b": 0}})
    assert ("two", "c", "GPU-b") not in agent.amounts()
    assert agent.hold().alone["GPU-b"].pod == "two"


def test_pod_holds_no_share_before_admission(agent):
    agent.pod("one", {"c": {"GPU-a": 4}}, admitted=False)
    assert (agent.amounts(), agent.hold().alone) == ({}, {})


@pytest.mark.parametrize(("running", "held"), [((), {"c"}), (("i",), {"c", "i"})])
def test_init_container_holds_share_only_while_running(agent, running, held):
    agent.pod("one", {"i": {"GPU-a": 2}, "c": {"GPU-a": 4}}, init=("i",), running=running)
    assert {container for _, container, _ in agent.amounts()} == held


def test_card_has_no_exclusive_pod_while_cards_of_another_pod_are_unknown(agent):
    agent.pod("one", {"c": {"GPU-a": 4}})
    agent.pod("two", {"c": {"GPU-a": 4}}, assigned=False)
    assert agent.amounts() == {("one", "c", "GPU-a"): 4 * GIB}
    assert agent.hold().alone == {}


async def test_share_metrics_are_exposed_before_first_card_reading(agent):
    registry = CollectorRegistry()
    found = [FoundCard(each, 0, 0, load_profiles()["nvidia"]) for each in agent.cards]
    watch = register_card_metrics(
        registry, "n", cards=lambda: found, pods=[agent.pods], load_nvml=lambda: None, last_xids={"GPU-a": 79}
    )
    agent.pod("one", {"c": {"GPU-a": 4}})
    assert watch.list_current() == {}
    labels = {"namespace": "d", "pod": "one", "container": "c", "card": "GPU-a"}
    assert registry.get_sample_value("accelerator_share_memory_bytes", labels) == 4 * GIB
