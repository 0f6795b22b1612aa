"""What stages found on nodes is shown by the leader: ready, failures with their reasons, and the last success."""

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from accelkit.enablement.reasons import StageReason
from accelkit.extender.metrics import ExtenderMetrics
from accelkit.extender.stages.metrics import StageTexts
from accelkit.extender.stages.records import NodeStages, StageRecords
from accelkit.ledger.ledger import Ledger
from accelkit.model.card import Card, Health
from accelkit.model.inventory import Inventory
from accelkit.model.keys import INVENTORY_ANNOTATION, STAGES_ANNOTATION
from accelkit.model.node_state import describe_state
from accelkit.model.pod import Node
from accelkit.model.stage import Outcome, Stage, StageRecord, StageResult, write_record

CARDS = (Card("a", "amd", "m", 16), Card("b", "nvidia", "m", 16, driver_version="570.1"))
STATE = describe_state("boot-1", "6.8.0", CARDS)
PASSED = StageResult(Outcome.PASS, found_at=1000.0, state=STATE)
READY, FAILURE = "accelerator_stage_ready", "accelerator_stage_failure_info"
SUCCESS = "accelerator_stage_last_success_timestamp_seconds"


class Cluster:
    """Nodes with what stages found there, as an extender sees them."""

    def __init__(self):
        self.ledger = Ledger(unit_bytes=1)
        self.ledger.put_node("n", Inventory(1, CARDS))
        self.records = StageRecords()
        self.leads = True
        self.texts = StageTexts(self.records, self.ledger, lambda: self.leads)

    def make(self, results, *, name="n", boot="boot-1", labels=None, inventoried=False, allocatable="2"):
        text = results if isinstance(results, str) else write_record(StageRecord(results or {}))
        annotations = {} if results is None else {STAGES_ANNOTATION: text}
        if inventoried:
            annotations[INVENTORY_ANNOTATION] = "what the ledger has read"
        return msgspec.convert(
            {
                "metadata": {"name": name, "annotations": annotations, "labels": labels},
                "status": {
                    "nodeInfo": {"bootID": boot, "kernelVersion": "6.8.0"},
                    "allocatable": {"cpu": "8", "accelkit.io/cards": allocatable},
                },
            },
            Node,
        )

    def put(self, results, **facts):
        self.records.take_event("MODIFIED", self.make(results, **facts))

    def show(self):
        families = text_string_to_metric_families(self.texts.render().decode())
        return {
            (each.name, *(each.labels[key] for key in ("stage", "vendor", "reason") if key in each.labels)): each.value
            for family in families
            for each in family.samples
        }


@pytest.fixture
def cluster():
    return Cluster()


def test_passed_stage_is_ready_for_each_vendor_of_the_node(cluster):
    cluster.put({Stage.PLUGIN_CHECK: PASSED})
    assert cluster.show() == {
        (READY, "plugin-check", "amd"): 1,
        (READY, "plugin-check", "nvidia"): 1,
        (SUCCESS, "plugin-check"): 1000,
    }


@pytest.mark.parametrize("outcome", [Outcome.FAIL, Outcome.UNKNOWN])
def test_failed_stage_exports_reason_and_keeps_last_success(cluster, outcome):
    cluster.put({Stage.PLUGIN_CHECK: PASSED})
    cluster.put({Stage.PLUGIN_CHECK: StageResult(outcome, "CardLost", found_at=2000.0, state=STATE)})
    shown = cluster.show()
    assert shown[READY, "plugin-check", "amd"] == 0
    assert shown[FAILURE, "plugin-check", "CardLost"] == 1
    assert shown[SUCCESS, "plugin-check"] == 1000


@pytest.mark.parametrize(("boot", "cards"), [("boot-2", CARDS), ("boot-1", CARDS[:1])])
def test_result_is_stale_after_reboot_or_card_change(cluster, boot, cards):
    cluster.put({Stage.PLUGIN_CHECK: PASSED})
    assert cluster.show()[READY, "plugin-check", "amd"] == 1
    cluster.put({Stage.PLUGIN_CHECK: PASSED}, boot=boot)
    cluster.ledger.put_node("n", Inventory(1, cards))
    shown = cluster.show()
    assert (shown[READY, "plugin-check", "amd"], shown[FAILURE, "plugin-check", "StateChanged"]) == (0, 1)


def test_unchecked_node_exports_stages_from_its_inventory(cluster):
    cluster.put(None, inventoried=True)
    assert cluster.show() == {
        (READY, stage, vendor): 1
        for stage in ("discover", "driver", "driver-check", "device-plugin")
        for vendor in ("amd", "nvidia")
    }


def test_device_plugin_failure_is_exported_if_nothing_is_allocatable(cluster):
    cluster.put({Stage.PLUGIN_CHECK: PASSED}, inventoried=True)
    cluster.put({Stage.PLUGIN_CHECK: PASSED}, inventoried=True, allocatable="0")
    shown = cluster.show()
    assert shown[READY, "driver-check", "amd"] == 1
    assert shown[FAILURE, "device-plugin", "NothingAllocatable"] == 1
    assert (READY, "plugin-check", "amd") not in shown


@pytest.mark.parametrize(
    ("change", "stage", "reason"),
    [
        ({"health_reason": "the driver amdgpu is no longer bound to the card"}, "driver", "DriverMissing"),
        ({"health_reason": "the card is gone from the PCI bus"}, "driver-check", "CardLost"),
        ({"health": Health.UNKNOWN}, "driver-check", "CardHealthUnknown"),
    ],
)
def test_current_card_fault_is_exported_and_hides_later_stages(cluster, change, stage, reason):
    cluster.put({Stage.PLUGIN_CHECK: PASSED}, inventoried=True)
    assert cluster.show()[READY, "plugin-check", "amd"] == 1
    unwell = msgspec.structs.replace(CARDS[0], **{"health": Health.UNHEALTHY, **change})
    cluster.ledger.put_node("n", Inventory(1, (unwell, CARDS[1])))
    shown = cluster.show()
    assert (shown[READY, stage, "nvidia"], shown[FAILURE, stage, reason]) == (0, 1)
    assert {key[1] for key in shown if key[0] == READY} <= {"discover", "driver", "driver-check"}
    assert shown[SUCCESS, "plugin-check"] == 1000


def test_driver_for_another_kernel_is_exported_as_mismatch(cluster):
    cluster.put(None, inventoried=True, labels={"accelkit.io/driver-kernel": "6.8.0"})
    assert cluster.show()[READY, "driver-check", "amd"] == 1
    cluster.put(None, inventoried=True, labels={"accelkit.io/driver-kernel": "6.7.9"})
    assert cluster.show()[FAILURE, "driver-check", "KernelDriverMismatch"] == 1


def test_node_without_cards_has_no_vendor_label(cluster):
    cluster.ledger.put_node("n", Inventory(1, ()))
    cluster.put(None, inventoried=True)
    assert cluster.show() == {(READY, "discover", ""): 0, (FAILURE, "discover", "NoCards"): 1}


def test_skipped_stage_exports_no_metrics(cluster):
    cluster.put({Stage.EXTENDER_CHECK: StageResult(Outcome.SKIPPED, "NeedNotPassed", state=STATE)})
    assert cluster.show() == {}


@pytest.mark.parametrize("reason", ["NoCards", "NothingAllocatable"])
def test_failure_reasons_set_by_the_extender_are_stage_reasons(reason):
    assert StageReason(reason)


@pytest.mark.parametrize("text", ["{", '{"results":{},"version":9}', "x" * 20_000])
def test_unreadable_record_is_exported_as_failure(cluster, text):
    cluster.put(text)
    assert cluster.show() == {(FAILURE, "", "RecordUnreadable"): 1}


def test_invalid_reason_is_exported_as_unreadable_record(cluster):
    cluster.put({Stage.PLUGIN_CHECK: StageResult(Outcome.FAIL, 'x"} 1\n' + "y" * 300, state=STATE)})
    assert cluster.show()[FAILURE, "plugin-check", "RecordUnreadable"] == 1


def test_deleted_node_or_removed_record_is_not_exported(cluster):
    for name in ("n", "m", "o"):
        cluster.put({Stage.PLUGIN_CHECK: PASSED}, name=name)
    cluster.records.take_event("DELETED", cluster.make({}, name="m"))
    cluster.put(None, name="o")
    assert [name for name, _ in cluster.records] == ["n"]
    cluster.records.replace([cluster.make({Stage.PLUGIN_CHECK: PASSED}, name="p")])
    assert [name for name, _ in cluster.records] == ["p"]


def test_stage_metrics_are_rendered_once_per_change(cluster, monkeypatch):
    made = []
    judge = NodeStages.judge
    monkeypatch.setattr(NodeStages, "judge", lambda stages, inventory: made.append(1) or judge(stages, inventory))
    cluster.put({Stage.PLUGIN_CHECK: PASSED})
    for _ in range(3):
        cluster.put({Stage.PLUGIN_CHECK: PASSED})
        cluster.show()
    assert len(made) == 1


def test_only_the_leader_exports_stage_metrics(cluster):
    cluster.put({Stage.PLUGIN_CHECK: PASSED})
    assert READY in ExtenderMetrics(cluster.ledger, lambda: 0.0, stages=cluster.texts.render).render().decode()
    cluster.leads = False
    assert READY not in ExtenderMetrics(cluster.ledger, lambda: 0.0, stages=cluster.texts.render).render().decode()


def test_number_and_length_of_vendor_labels_are_limited(cluster):
    cards = tuple(Card(f"c{number}", f"vendor-{number}", "m", 16) for number in range(50))
    cards += (Card("long", "x" * 500, "m", 16), Card("odd", 'a"b', "m", 16))
    cluster.ledger.put_node("n", Inventory(1, cards))
    state = describe_state("boot-1", "6.8.0", cards)
    cluster.put({Stage.PLUGIN_CHECK: msgspec.structs.replace(PASSED, state=state)})
    vendors = {key[2] for key in cluster.show() if key[0] == READY}
    assert len(vendors) == 4
    assert all(len(vendor) <= 32 for vendor in vendors)
