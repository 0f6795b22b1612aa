"""What a node tells of its caches: each condition with its reason, in each state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from agent_worlds import FOREIGN, GIB, LABELS, TODAY, A, B, desired, folder, image_facts, link, pod, stored, world

from accelkit.cacheagent.planning.desired_caches import Refusal
from accelkit.cacheagent.planning.observed import Node, OwnNode, read_own_node
from accelkit.cacheagent.planning.plan import make_plan
from accelkit.cacheagent.planning.world import WITHDRAWN, Attempt, Disk, ImagePolicies, World
from accelkit.cacheagent.reporting.effect import MissedFiles, MissKind
from accelkit.cacheagent.reporting.report import build_reports
from accelkit.gkm.objects import NodeCacheStatus
from accelkit.kernelcache.compatibility.node_facts import NodeHardware
from accelkit.kernelcache.formats import Target
from accelkit.model.card import Card
from accelkit.model.inventory import Inventory, encode_inventory
from accelkit.model.keys import INVENTORY_ANNOTATION

HERE = {folder(A): stored()}
LINKED = {link(): folder(A)}
REFUSED = Refusal("NoSignatures", "nothing is attached to it")
BROKEN = Refusal("PolicyUnreadable", "signer policy x is wrong")


def reports(known: World, missed: dict[str, dict[str, MissedFiles]] | None = None):
    return build_reports(known, make_plan(known), missed or {}, node_name="n", root="/store")


def entry(known: World, digest: str = A, **missed: MissedFiles) -> NodeCacheStatus:
    return reports(known, {"team/add": missed})["team"].caches["add"][digest]


def told(found: NodeCacheStatus, kind: str) -> tuple[str, str]:
    each = next(each for each in found.conditions if each.type == kind)
    return each.status, each.reason


def message(found: NodeCacheStatus, kind: str) -> str:
    return next(each.message for each in found.conditions if each.type == kind)


def failed(known: World, reason: str = "RegistryUnavailable", **changes: Any) -> World:
    given = {"about": known.describe_work(desired()), "failures": 2, "reason": reason, "message": "no answer"}
    return replace(known, attempts={"team/add": Attempt(**{**given, "retry_at": 1100.0, **changes})})


SERVED = world(desired(), stored=HERE, links=LINKED)
UNDECIDED = {"team/add": ImagePolicies("q", undecided=BROKEN)}
COMPATIBLE, UNJUDGED, EXTRACTED, READY = (
    *(("True", "Compatible"), ("Unknown", "Pending"), ("True", "Extracted"), ("True", "Ready")),
)


def no(reason: str) -> tuple[str, str]:
    return "False", reason


OLD = {folder(A): stored(at=TODAY - 999_999)}


@pytest.mark.parametrize(
    ("known", "compatible", "extracted", "ready"),
    [
        (world(desired(verified=None)), UNJUDGED, no("Pending"), no("Pending")),
        (world(desired()), UNJUDGED, no("Extracting"), no("Extracting")),
        (world(desired(), image_facts={A: image_facts()}), COMPATIBLE, no("Extracting"), no("Extracting")),
        (world(desired(), stored=HERE), COMPATIBLE, EXTRACTED, no("Pending")),
        (SERVED, COMPATIBLE, EXTRACTED, READY),
        (world(desired(), image_facts={A: image_facts(labels=FOREIGN)}), *[no("Incompatible")] * 3),
        (world(desired(), image_facts={A: image_facts()}, node=OwnNode(NodeHardware(gpus=()))), *[no("NoCards")] * 3),
        (
            world(desired(), image_facts={A: image_facts(9)}, disk=Disk(GIB, 5)),
            COMPATIBLE,
            no("OverBudget"),
            no("OverBudget"),
        ),
        (world(desired(), image_facts={A: image_facts(9)}, disk=Disk(5)), COMPATIBLE, no("NodeFull"), no("NodeFull")),
        (failed(world(desired(), image_facts={A: image_facts()})), COMPATIBLE, *[no("RegistryUnavailable")] * 2),
        (
            world(desired(verified=False, refusal=REFUSED), stored=HERE, links={link(): WITHDRAWN}),
            *(COMPATIBLE, no("NoSignatures"), no("NoSignatures")),
        ),
        # What was handed out stays so, whatever nobody can say now.
        (failed(world(desired(), stored=OLD, links=LINKED)), COMPATIBLE, EXTRACTED, READY),
        (world(desired(), stored=HERE, links=LINKED, image_policies=UNDECIDED), COMPATIBLE, EXTRACTED, READY),
        (world(desired(verified=None), stored=HERE, links=LINKED), COMPATIBLE, EXTRACTED, READY),
        # To another cache nothing was handed out yet.
        (world(desired(verified=None), stored=HERE), COMPATIBLE, EXTRACTED, no("Pending")),
        (world(desired(), stored=HERE, image_policies=UNDECIDED), COMPATIBLE, EXTRACTED, no("PolicyUnreadable")),
        (failed(world(desired(), stored=OLD)), COMPATIBLE, *[no("RegistryUnavailable")] * 2),
        (world(desired(), image_policies=UNDECIDED), UNJUDGED, *[no("PolicyUnreadable")] * 2),
    ],
)
def test_each_state_reports_conditions_with_reasons(known, compatible, extracted, ready):
    found = entry(known)
    assert told(found, "Compatible") == compatible
    assert told(found, "Extracted") == extracted
    assert told(found, "Ready") == ready
    assert [each.type for each in found.conditions] == ["Compatible", "Extracted", "Ready", "Outdated", "Effective"]


def test_failure_message_has_count_and_does_not_change_over_time():
    assert "no answer (failure 2, retry scheduled)" in message(entry(failed(world(desired()))), "Ready")
    found = entry(failed(world(desired(), stored=OLD, links=LINKED)))
    assert "the cache was verified earlier; RegistryUnavailable: no answer" in message(found, "Ready")
    known = failed(world(desired()))
    assert entry(known) == entry(replace(known, now=1001.0, today=TODAY + 1))


def test_cards_are_reported_by_number_product_and_driver():
    cards = (
        Card("a", "simulated", "x", GIB, index=0, target="cuda:90"),
        Card("b", "simulated", "x", GIB, index=1, target="hip:gfx942"),
        Card("c", "simulated", "y", GIB, index=2),
    )
    node = OwnNode(NodeHardware.from_inventory(cards, cpu_architecture="amd64"), cards, "h")
    known = world(desired(), stored=HERE, links=LINKED, node=node)
    found = entry(known)
    assert (found.compatible_gpus, found.incompatible_gpus) == ([0], [1])
    assert told(found, "Compatible") == ("True", "PartlyCompatible")
    assert [(each.gpu_type, each.ids) for each in reports(known)["team"].gpus] == [("x", [0, 1]), ("y", [2])]
    cards = tuple(Card(f"c{i}", "amd", "MI300X", GIB, index=i, driver_version=v) for i, v in enumerate("112"))
    node = OwnNode(NodeHardware.from_inventory(cards), cards)
    groups = reports(world(desired(), stored=HERE, links=LINKED, node=node))["team"].gpus
    assert [(each.driver_version, each.ids) for each in groups] == [("1", [0, 1]), ("2", [2])]


BUILT = (Target("cuda", "90", 32, ptx_version=84), Target("cuda", "90", 32, cuda_version="12.9"))


def inventory_node(driver: str, labels: dict[str, str] | None = None) -> OwnNode:
    """A node as an API server sends it, with one H100 under this driver."""
    card = Card("GPU-1", "nvidia", "NVIDIA H100 80GB HBM3", GIB, index=0, driver_version=driver)
    annotations = {INVENTORY_ANNOTATION: encode_inventory(Inventory(GIB, (card,)))}
    sent = {
        "metadata": {"name": "n", "annotations": annotations, "labels": labels},
        "status": {"nodeInfo": {"architecture": "amd64"}},
    }
    return read_own_node(msgspec.json.decode(msgspec.json.encode(sent), type=Node))


LABELLED = {"nvidia.com/cuda.driver-version.full": "575.57.08", "nvidia.com/cuda.runtime-version.full": "12.9"}
FORMERLY = {
    "nvidia.com/cuda.driver.major": "470",
    "nvidia.com/cuda.driver.minor": "82",
    "nvidia.com/cuda.driver.rev": "01",
}


@pytest.mark.parametrize(
    ("driver", "labels", "compatible", "numbers", "shown"),
    [
        ("575.57.08", None, ("True", "Compatible"), ([0], []), "575.57.08"),
        ("470.82.01", None, ("False", "Incompatible"), ([], [0]), "470.82.01"),
        ("", None, ("Unknown", "DriverUnknown"), ([], []), ""),
        ("", LABELLED, ("True", "Compatible"), ([0], []), "575.57.08"),
        ("", FORMERLY, ("False", "Incompatible"), ([], [0]), "470.82.01"),
        # What runs now counts, whatever a label still says.
        ("470.82.01", LABELLED, ("False", "Incompatible"), ([], [0]), "470.82.01"),
        ("", {"nvidia.com/cuda.driver-version.full": "nobody knows"}, ("Unknown", "DriverUnknown"), ([], []), ""),
    ],
)
def test_driver_version_of_card_decides_compatibility(driver, labels, compatible, numbers, shown):
    for target in BUILT:
        built = msgspec.structs.replace(LABELS, targets=(target,))
        known = world(desired(), image_facts={A: image_facts(labels=built)}, node=inventory_node(driver, labels))
        found = entry(known)
        assert (found.compatible_gpus, found.incompatible_gpus) == numbers
        assert told(found, "Compatible") == compatible
    (group,) = reports(known)["team"].gpus
    assert (group.gpu_type, group.driver_version, group.ids) == ("NVIDIA H100 80GB HBM3", shown, [0])


def test_variables_from_files_are_reported_until_status_has_them():
    """Images that others made have no label of ours for them."""
    labels = msgspec.structs.replace(LABELS, format="vllm", variables={"VLLM_USE_V1": True, "VLLM_X": None})
    here = {folder(A): stored(labels=labels)}
    assert entry(world(desired(), stored=here)).recorded_environment == {"VLLM_USE_V1": "1", "VLLM_X": ""}
    assert entry(world(desired(has_variables=True), stored=here)).recorded_environment == {}
    assert entry(world(desired(), image_facts={A: image_facts(labels=labels)})).recorded_environment == {}


def test_differing_variable_is_reported_only_for_pods_with_misses():
    recorded = msgspec.structs.replace(LABELS, format="vllm", variables={"VLLM_USE_V1": True, "VLLM_X": 1})
    copies = {"accelkit_cache_1": "add"}
    missing = replace(pod("p", **copies), variables={"accelkit-cache-1": ({"VLLM_USE_V1": "0"},)})
    hitting = replace(pod("q", **copies), variables={"accelkit-cache-1": ({"VLLM_X": "2"},)})
    known = world(desired(), stored={folder(A): stored(labels=recorded)}, links=LINKED, pods=(missing, hitting))
    missed = {"uid-p": MissedFiles(3, {MissKind.VLLM: 3}, 1), "uid-q": MissedFiles()}
    found = reports(known, {"team/add": missed})["team"].caches["add"][A]
    assert told(found, "Effective") == ("False", "Misses")
    assert "probably because pods set VLLM_USE_V1 to different values than at capture" in message(found, "Effective")
    assert "VLLM_X" not in message(found, "Effective")


def test_ready_message_explains_unmoved_link_and_refused_digest():
    both = {**HERE, folder(B): stored()}
    found = entry(world(desired(B), stored=both, links=LINKED, pods=(pod("p", starting=True),)), B)
    assert told(found, "Ready") == ("False", "Pending")
    assert "team/p" in message(found, "Ready")
    known = world(desired(B, verified=False, refusal=REFUSED), stored=both, links=LINKED)
    assert "pods still get the previous digest" in message(entry(known, B), "Ready")


def test_former_digest_is_reported_during_use_by_pods():
    both = {**HERE, folder(B): stored()}
    uses = {"uid-p": {"team/add": frozenset({folder(A)})}}
    known = world(desired(B), stored=both, links={link(): folder(B)}, pods=(pod("p", f"add-{'a' * 12}"),), uses=uses)
    assert told(entry(known, A), "Outdated") == ("True", "Outdated")
    assert "team/p" in message(entry(known, A), "Outdated")
    assert told(entry(known, B), "Outdated") == ("True", "Outdated")
    assert entry(known, A).path == f"/store/{folder(A)}/cache"
    counts = reports(known)["team"].counts
    assert (counts.pod_running_cnt, counts.pod_outdated_cnt, counts.node_in_use_cnt) == (0, 1, 1)


def test_misses_are_reported_per_scanned_pod():
    known = replace(SERVED, pods=(pod("hits"), pod("misses"), pod("unseen")))
    missed = {"uid-hits": MissedFiles(), "uid-misses": MissedFiles(3)}
    found = entry(known, **missed)
    assert [(each.pod_name, each.missed_files) for each in found.pods] == [("hits", 0), ("misses", 3), ("unseen", None)]
    assert told(found, "Effective") == ("False", "Misses")
    assert "1 of 2 pods created 3 files: team/misses (3)" in message(found, "Effective")
    assert told(entry(SERVED), "Effective") == ("Unknown", "NotMeasured")


def test_each_namespace_and_cluster_scope_has_own_report():
    made = reports(world(desired(), desired(key="other/add"), desired(key="/add", namespaces=("x",))))
    assert set(made) == {"team", "other", ""}
    assert reports(world()) == {}
    assert reports(world(desired(image=None, folder="", verified=None))) == {}


@pytest.mark.parametrize(
    ("known", "failures"),
    [
        (SERVED, 0),
        (world(desired()), 0),
        (world(desired(verified=None)), 0),
        (world(desired(), image_facts={A: image_facts(labels=FOREIGN)}), 0),
        (world(desired(), image_facts={A: image_facts(9)}, disk=Disk(5)), 1),
        (failed(world(desired())), 1),
        (failed(world(desired(), stored=OLD, links=LINKED)), 0),
        (world(desired(), stored=HERE, image_policies={"team/add": ImagePolicies("q", undecided=BROKEN)}), 1),
    ],
)
def test_node_errors_count_only_caches_that_cannot_be_served(known, failures):
    assert reports(known)["team"].counts.node_error_cnt == failures
