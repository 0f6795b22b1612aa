import msgspec
import pytest
from fake_api.server import FakeApi

from accelkit.errors import ConfigurationError, ServiceError
from accelkit.install import nodes
from accelkit.install import shared_nodes as sharing
from accelkit.install.shared_nodes import list_unexamined, share, unshare, withdraw
from accelkit.kube.paths import NODES, build_node_path
from accelkit.model.card import Card
from accelkit.model.inventory import Inventory, encode_inventory
from accelkit.model.keys import INVENTORY_ANNOTATION
from accelkit.vendors.dialects import load_dialect

INVENTORY = encode_inventory(Inventory(2**30, (Card(id="card-0", vendor="v", model="m", memory_bytes=2**34),)))
PRESENT = "feature.node.kubernetes.io/pci-simulated.present"
OFFER = {"accelkit.io/memory": "16", "accelkit.io/cards": "1"}
A = build_node_path("a")
GONE = {"accelkit.io/memory": "0", "accelkit.io/cards": "0"}
GCUSHARE = load_dialect("gcushare")
THEIRS = {"enflame.com/gcu-memory": "0", "enflame.com/gcu-count": "0"}


def cluster(*nodes, polls=()):
    """Nodes; `polls` are what their kubelets do to them, one function per list after the first write."""
    api, left = FakeApi(), list(polls)
    for each in nodes:
        api.store(NODES, each)

    def act(request):
        if request.path == NODES and request.method == "GET" and api.writes and left:
            left.pop(0)(api.objects)

    api.before.append(act)
    return api


def node(name, *, labels=None, inventory=None, offer=None):
    annotations = {"other": "kept"} | ({INVENTORY_ANNOTATION: inventory} if inventory else {})
    tables = {table: {"cpu": "4", **(offer or {})} for table in ("capacity", "allocatable")}
    return {"metadata": {"name": name, "labels": {"zone": "a", **(labels or {})}, "annotations": annotations}} | {
        "status": tables
    }


def shared(name, offer):
    return node(name, labels={"accelkit.io/share": "true"}, inventory=INVENTORY, offer=offer)


def offers(value):
    def kubelet(nodes):
        for each in nodes.values():
            for table in each["status"].values():
                table.update({key: value for key in GONE if key in table})

    return kubelet


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(nodes, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(sharing, "POLL_SECONDS", 0.0)


async def test_all_nodes_with_cards_are_shared_by_default():
    api = cluster(
        node("nfd", labels={PRESENT: "true"}),
        node("absent", labels={PRESENT: "false"}),
        node("known", inventory=INVENTORY),
        node("out", labels={PRESENT: "true", "accelkit.io/share": "false"}),
        node("plain"),
        shared("done", OFFER),
    )
    result = await share(api)
    assert result.changed
    assert result.nodes == ("done", "known", "nfd")
    assert sorted(result.before) == ["known", "nfd"]
    assert result.before["nfd"] == {}
    assert result.after["nfd"]["labels"] == {"accelkit.io/share": "true"}
    assert {
        path for path, each in api.objects.items() if each["metadata"]["labels"].get("accelkit.io/share") == "true"
    } == {build_node_path(name) for name in ("done", "known", "nfd")}


async def test_named_node_is_shared_despite_opt_out_label():
    api = cluster(node("a", labels={"accelkit.io/share": "false"}), node("b"))
    assert (await share(api, nodes=["a", "b"])).nodes == ("a", "b")
    assert not (await share(api, nodes=["a", "b"])).changed
    assert len(api.writes) == 2


async def test_check_mode_writes_nothing():
    api = cluster(node("a", labels={PRESENT: "true"}), shared("b", OFFER))
    assert (await share(api, check=True, wait_seconds=9)).changed
    assert (await unshare(api, grace_seconds=0, confirm_seconds=0, check=True)).changed
    assert (await withdraw(api, grace_seconds=0, check=True)).changed
    assert api.writes == []


@pytest.mark.parametrize(
    "act", [share, lambda api, nodes: unshare(api, nodes=nodes, grace_seconds=0, confirm_seconds=0)]
)
async def test_unknown_nodes_are_named_with_valid_choices(act):
    with pytest.raises(ConfigurationError, match=r"cannot find the nodes c, d; choose among a, b"):
        await act(cluster(node("b"), node("a")), nodes=["d", "a", "c"])


async def test_wait_timeout_names_nodes_that_offer_no_cards():
    api = cluster(
        node("a", labels={"accelkit.io/share": "true"}),
        shared("b", {**OFFER, "accelkit.io/cards": "0"}),
        shared("c", OFFER),
        node("d", labels={"accelkit.io/share": "true"}, inventory="{"),
        node("e", labels={"accelkit.io/share": "true"}, inventory=encode_inventory(Inventory(1, ()))),
    )
    with pytest.raises(ServiceError) as caught:
        await share(api, wait_seconds=1e-6)
    message = str(caught.value)
    assert "4 of 5 nodes do not offer their cards: a: its agent has not published an inventory; b: its" in message
    assert "no allocatable accelkit.io/cards; d: cannot read the inventory" in message
    assert "e: its agent found no card" in message
    assert (await share(api, nodes=["c"], wait_seconds=1)).changed is False


UNKNOWN = (Card("GPU-1", "nvidia", "NVIDIA B200", None), Card("GPU-2", "nvidia", "NVIDIA B200", None))
KNOWN = Card("c", "v", "m", 2**34)
NO_MEMORY = {"accelkit.io/memory": "0", "accelkit.io/cards": "2"}
SILENT = "library libnvidia-ml.so.1 of nvidia is silent: it has no device nodes"


UNKNOWN_SAID = (
    r"a: card GPU-1 \(NVIDIA B200\) and 1 more of unknown memory: {}; fix the cause, or list the cards in /etc/acc"
)


@pytest.mark.parametrize(
    ("inventory", "offer", "why"),
    [
        (Inventory(2**30, UNKNOWN, library_problems=(SILENT,)), NO_MEMORY, UNKNOWN_SAID.format(SILENT)),
        (
            Inventory(2**30, UNKNOWN),
            NO_MEMORY,
            UNKNOWN_SAID.format("neither its driver nor the table of models states it"),
        ),
        (Inventory(2**30, (*UNKNOWN, KNOWN)), None, r"a: its kubelet has no allocatable accelkit\.io/memory"),
        (
            Inventory(2**30, (KNOWN,), withheld=("accelkit.io/memory",)),
            OFFER,
            "its agent withholds accelkit.io/memory, because the ConfigMap",
        ),
    ],
    ids=["library", "no table", "some memory is known", "withheld"],
)
async def test_reason_for_unoffered_memory_is_reported(inventory, offer, why):
    given = {"labels": {"accelkit.io/share": "true"}, "inventory": encode_inventory(inventory), "offer": offer}
    with pytest.raises(ServiceError, match=why):
        await share(cluster(node("a", **given)), wait_seconds=1e-6)


async def test_library_problem_is_reported_for_node_that_offers_cards():
    text = encode_inventory(Inventory(2**30, (KNOWN,), library_problems=(SILENT,)))
    api = cluster(
        node("a", labels={"accelkit.io/share": "true"}, inventory=text, offer=OFFER),
        node("b", inventory=text),
        shared("c", OFFER),
    )
    done = await share(api, nodes=["a", "c"], wait_seconds=1)
    assert done.library_problems == {"a": (SILENT,)}
    assert (await share(api, nodes=["a", "c"])).library_problems == {}


async def test_agents_with_another_unit_are_awaited():
    with pytest.raises(ServiceError, match="a: its agent still uses the unit 1GiB"):
        await share(cluster(shared("a", OFFER)), wait_seconds=1e-6, unit_bytes=2**20)
    assert (await share(cluster(shared("a", OFFER)), wait_seconds=1, unit_bytes=2**30)).nodes == ("a",)


async def test_agent_that_cannot_adopt_the_unit_ends_the_wait_with_reason():
    text = encode_inventory(Inventory(2**30, (), next_unit_bytes=2**20, problem="too many devices"))
    api = cluster(node("a", labels={"accelkit.io/share": "true"}, inventory=text))
    with pytest.raises(ServiceError, match=r"^node a: too many devices$"):
        await share(api, wait_seconds=600, unit_bytes=2**20)


async def test_unshare_removes_only_accelkit_metadata_and_resources():
    def keys_of_a_running_agent_stay_for_a_while(nodes):
        assert "accelkit.io/memory" in nodes[A]["status"]["capacity"]

    api = cluster(shared("a", OFFER), node("b"), polls=[keys_of_a_running_agent_stay_for_a_while, offers("0")])
    result = await unshare(api, grace_seconds=60, confirm_seconds=0)
    assert result.changed
    assert result.nodes == ("a",)
    assert result.before["a"]["capacity"] == OFFER
    assert result.after == {"a": {}}
    assert api.objects[A] == node("a")
    again = await unshare(api, grace_seconds=60, confirm_seconds=0)
    assert not again.changed
    assert again.nodes == ()


async def test_resources_set_to_zero_by_kubelet_are_removed_immediately():
    api = cluster(node("a", offer=GONE))
    await unshare(api, nodes=["a"], grace_seconds=0, confirm_seconds=0)
    assert api.objects[A] == node("a")


async def test_kubelet_that_still_offers_resources_is_an_error_after_grace_period():
    api = cluster(shared("a", OFFER))
    with pytest.raises(
        ServiceError, match=r"1 of 1 nodes still offer accelkit's resources: a: .*accelkit.io/memory: 16"
    ):
        await unshare(api, grace_seconds=0, confirm_seconds=0)
    assert api.objects[A]["status"]["capacity"]["accelkit.io/memory"] == "16"


async def test_reappearing_resources_are_an_error():
    def back(nodes):
        nodes[A]["status"]["capacity"].update(OFFER)

    api = cluster(shared("a", GONE), polls=[offers("0"), back])
    with pytest.raises(ServiceError, match="reappeared on a"):
        await unshare(api, grace_seconds=0, confirm_seconds=0)


async def test_node_deleted_during_unshare_is_not_an_error():
    def deleted(nodes):
        nodes.clear()

    api = cluster(shared("a", OFFER), polls=[deleted])
    assert (await unshare(api, grace_seconds=60, confirm_seconds=0)).changed


async def test_unshare_removes_only_labels_with_unchanged_values():
    ours, theirs = "accelkit.io/cards.count", "feature.node.kubernetes.io/pci-10de.present"
    record = msgspec.json.encode({ours: "1", theirs: "true", "lost": "1"}).decode()
    metadata = {
        "name": "a",
        "labels": {ours: "1", theirs: "changed", "mine": "x"},
        "annotations": {"accelkit.io/labels": record, "accelkit.io/freed-at": "2026-01-01T00:00:00.000000+00:00"},
    }
    api = cluster({"metadata": metadata, "status": {"capacity": {}, "allocatable": {}}})
    done = await unshare(api, grace_seconds=0, confirm_seconds=0)
    assert done.before["a"]["labels"] == {ours: "1"}
    assert api.objects[A]["metadata"]["labels"] == {theirs: "changed", "mine": "x"}
    assert api.objects[A]["metadata"]["annotations"] == {}


async def test_unexamined_nodes_are_listed_and_named_nodes_override_labels():
    api = cluster(
        node("chosen", labels={"accelkit.io/share": "true"}),
        shared("done", OFFER),
        node("found", labels={PRESENT: "true"}),
        node("left", inventory=INVENTORY),
        node("not-shared", labels={"accelkit.io/share": "false"}),
        node("unknown"),
    )
    assert await list_unexamined(api) == {"chosen": True, "found": False, "left": False, "unknown": False}
    assert await list_unexamined(api, ["not-shared", "done", "chosen"]) == {"chosen": True, "not-shared": False}
    with pytest.raises(ConfigurationError, match="cannot find the nodes misspelt"):
        await list_unexamined(api, ["misspelt"])


async def test_node_with_another_device_plugin_is_refused():
    api = cluster(
        node("a", labels={PRESENT: "true"}, offer={"nvidia.com/gpu": "8"}), node("b", labels={PRESENT: "true"})
    )
    with pytest.raises(ConfigurationError, match=r"offers the same cards \(a: nvidia.com/gpu: 8\)") as caught:
        await share(api)
    assert "node_labels_coexisting" in str(caught.value)
    assert api.writes == []
    assert (await share(api, coexisting=["a"])).nodes == ("a", "b")


@pytest.mark.parametrize("offer", [{"nvidia.com/gpu": "0"}, {"nvidia.com/mig-1g.5gb": "0"}, {"cpu": "3"}])
async def test_removed_device_plugin_is_no_conflict(offer):
    assert (await share(cluster(node("a", labels={PRESENT: "true"}, offer=offer)))).nodes == ("a",)


@pytest.mark.parametrize(
    "name", ["nvidia.com/mig-1g.5gb", "volcano.sh/vgpu-number", "amd.com/cpx_nps4", "enflame.com/drs-gcu"]
)
async def test_node_with_partitions_of_another_plugin_is_refused(name):
    with pytest.raises(ConfigurationError, match=f"offers the same cards .a: {name}: 7"):
        await share(cluster(node("a", labels={PRESENT: "true"}, offer={name: "7"})))


async def test_plugin_with_counted_resources_is_no_conflict():
    api = cluster(node("a", labels={PRESENT: "true"}, offer={"gpu.intel.com/i915": "2"}))
    counted = load_dialect("gas").resources.requestable
    assert (await share(api, counted=counted)).nodes == ("a",)
    with pytest.raises(ConfigurationError, match=r"gpu\.intel\.com/i915: 2"):
        await share(api)


async def test_resource_served_by_another_plugin_is_a_conflict_until_advertised():
    kubegpu = load_dialect("kubegpu")
    told = {"dialect": kubegpu, "counted": kubegpu.resources.requestable}
    api = cluster(node("a", labels={PRESENT: "true"}, offer={"nvidia.com/gpu": "8"}))
    with pytest.raises(ConfigurationError, match=r"offers the same cards \(a: nvidia.com/gpu: 8\)"):
        await share(api, **told)
    api.objects[A]["metadata"]["annotations"] = {"accelkit.io/advertised": "nvidia.com/gpu"}
    assert (await share(api, **told)).nodes == ("a",)
    # Agents that serve another dialect leave the resource to its plugin, whose pods are counted.
    other = cluster(node("a", labels={PRESENT: "true"}, offer={"nvidia.com/gpu": "8"}))
    assert (await share(other, dialect=load_dialect("native"), counted=kubegpu.resources.requestable)).nodes == ("a",)


async def test_unshare_keeps_opt_out_label():
    api = cluster(node("a", labels={"accelkit.io/share": "false"}, offer=GONE))
    await unshare(api, grace_seconds=0, confirm_seconds=0)
    assert api.objects[A] == node("a", labels={"accelkit.io/share": "false"})
    assert not (await unshare(api, grace_seconds=0, confirm_seconds=0)).changed


async def test_exclusive_share_removes_label_from_unnamed_nodes():
    api = cluster(shared("a", OFFER), shared("b", OFFER), node("c", labels={"accelkit.io/share": "false"}), node("d"))
    done = await share(api, nodes=["a", "d"], exclusive=True)
    assert done.nodes == ("a", "d")
    assert sorted(done.after) == ["b", "d"]
    assert done.before["b"]["labels"] == {"accelkit.io/share": "true"}
    assert "labels" not in done.after["b"]
    labels = {
        name: api.objects[build_node_path(name)]["metadata"]["labels"].get("accelkit.io/share") for name in "abcd"
    }
    assert labels == {"a": "true", "b": None, "c": "false", "d": "true"}
    assert not (await share(api, nodes=["a", "d"], exclusive=True)).changed


async def test_exclusive_share_without_names_keeps_all_labels():
    api = cluster(node("by-hand", labels={"accelkit.io/share": "true"}))
    assert not (await share(api, exclusive=True)).changed


async def share_by_a_dialect(*nodes):
    api = cluster(*nodes)
    await share(api, dialect=GCUSHARE)
    return api


async def test_former_dialect_is_removed_from_node_that_remains_shared():
    api = await share_by_a_dialect(shared("a", {**OFFER, **THEIRS}), shared("b", OFFER))
    assert api.objects[A]["metadata"]["annotations"]["accelkit.io/advertised"] == ",".join(sorted(THEIRS))
    assert api.objects[A]["metadata"]["labels"]["enflame.com/gcushare"] == "true"
    done = await unshare(api, keep=["a", "b"], grace_seconds=0, confirm_seconds=0)
    assert done.before["a"]["capacity"] == THEIRS
    assert api.objects[A] == shared("a", OFFER)
    assert not (await unshare(api, keep=["a", "b"], grace_seconds=0, confirm_seconds=0)).changed


async def test_current_dialect_is_kept_and_native_resources_are_removed():
    api = await share_by_a_dialect(shared("a", {**GONE, **dict.fromkeys(THEIRS, "16")}))
    await unshare(api, keep=["a"], grace_seconds=0, confirm_seconds=0, dialect=GCUSHARE)
    assert api.objects[A]["status"]["capacity"] == {"cpu": "4", **dict.fromkeys(THEIRS, "16")}
    assert api.objects[A]["metadata"]["labels"]["enflame.com/gcushare"] == "true"


async def test_unshare_removes_own_dialect_resources_and_keeps_foreign_resources():
    foreign = node("theirs", offer=dict.fromkeys(THEIRS, "16"))
    api = await share_by_a_dialect(shared("a", THEIRS), foreign)
    await unshare(api, grace_seconds=0, confirm_seconds=0)
    assert api.objects[A] == node("a")
    assert api.objects[build_node_path("theirs")] == foreign


async def test_advertised_names_are_kept_until_resources_are_removed():
    api = await share_by_a_dialect(shared("a", dict.fromkeys(THEIRS, "16")))
    with pytest.raises(ServiceError, match="still offer"):
        await unshare(api, grace_seconds=0, confirm_seconds=0)
    for table in api.objects[A]["status"].values():
        table.update(THEIRS)
    await unshare(api, grace_seconds=0, confirm_seconds=0)
    assert api.objects[A] == node("a")


async def test_withdraw_removes_label_and_waits_until_nothing_is_allocatable():
    def kubelet(nodes):
        nodes[A]["status"]["allocatable"].update(GONE)

    api = cluster(shared("a", OFFER), node("b", labels={"accelkit.io/share": "false"}), polls=[lambda _: None, kubelet])
    result = await withdraw(api, grace_seconds=5)
    left = api.objects[A]
    assert "accelkit.io/share" not in left["metadata"]["labels"]
    assert INVENTORY_ANNOTATION in left["metadata"]["annotations"]
    assert left["status"]["capacity"]["accelkit.io/memory"] == "16"
    assert (result.changed, result.nodes) == (True, ("a",))
    assert "labels" in result.before["a"]
    assert "labels" not in result.after["a"]
    assert api.objects[build_node_path("b")]["metadata"]["labels"]["accelkit.io/share"] == "false"
    assert not (await withdraw(api, grace_seconds=5)).changed


async def test_withdraw_timeout_names_node_that_still_offers_resources():
    with pytest.raises(ServiceError, match=r"1 of 2 nodes still offer accelkit's resources to pods: a: .*/memory: 16"):
        await withdraw(cluster(shared("a", OFFER), node("b")), grace_seconds=0)


async def test_former_dialect_is_removed_from_newly_shared_node():
    api = await share_by_a_dialect(shared("a", {**OFFER, **THEIRS}))
    api.store(NODES, node("b", labels={PRESENT: "true"}, offer={**OFFER, **THEIRS}))
    await share(api)
    await unshare(api, keep=["a", "b"], grace_seconds=0, confirm_seconds=0)
    left = api.objects[build_node_path("b")]
    assert left["status"]["capacity"] == {"cpu": "4", **OFFER}
    assert left["metadata"]["annotations"] == {"other": "kept", "accelkit.io/foreign-labels": PRESENT}
    assert not (await share(api)).changed


async def test_advertised_names_outside_known_dialects_are_ignored():
    api = cluster(shared("a", OFFER), polls=[offers("0")])
    api.objects[A]["metadata"]["annotations"]["accelkit.io/advertised"] = "cpu,enflame.com/gcu-memory"
    await unshare(api, grace_seconds=5, confirm_seconds=0)
    assert api.objects[A] == node("a")


async def test_excluded_nodes_are_neither_labeled_nor_listed():
    api = cluster(node("a", labels={PRESENT: "true"}), node("b", labels={PRESENT: "true"}, offer={"amd.com/gpu": "1"}))
    assert (await share(api, leave_out=["b"])).nodes == ("a",)
    assert "accelkit.io/share" not in api.objects[build_node_path("b")]["metadata"]["labels"]
    assert list(await list_unexamined(api, leave_out=["b"])) == ["a"]
