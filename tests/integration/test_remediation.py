"""`accelkit remediation` on a real API server: what it does on a node, what it takes back, what bounds its rights."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import asynccontextmanager

import msgspec
import pytest
from bounded_accounts import installed_bounds, remediation_bounds
from cluster_objects import kubeconfig_of_account
from extender_process import PODS, assignment, world_of
from impersonation import acting_as, find_refusal
from support.waiting import until

from accelkit.model.card import Health
from accelkit.model.inventory import Inventory, decode_inventory, encode_inventory
from accelkit.model.keys import INVENTORY_ANNOTATION
from accelkit.model.observed_allocations import ALLOCATIONS_KEY, Allocations, encode_allocations
from accelkit.remediation.undoing import undo_all

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

NODES, CONFIG_MAPS = "/api/v1/nodes", "/api/v1/namespaces/default/configmaps"
READY = {"type": "Ready", "status": "True", "reason": "Test", "message": ""}
UNHEALTHY = {"key": "accelkit.io/unhealthy", "effect": "NoSchedule"}
FOREIGN = {"key": "example.org/theirs", "value": "x", "effect": "NoSchedule"}
NAME = "accelkit-remediation"
ACCOUNT = f"system:serviceaccount:default:{NAME}"


@pytest.fixture(scope="module")
def token(control_plane):
    """A kubeconfig of the service's account, with its rights and policies for as long as the tests of this file."""
    with installed_bounds(control_plane.kubeconfig, remediation_bounds("default", NAME, "reset")):
        yield asyncio.run(kubeconfig_of_account(control_plane, NAME, "default"))


@asynccontextmanager
async def remediation_of(kubeconfig, log, *arguments):
    """The service, killed at the latest when the block is left; yields what starts it anew after a SIGKILL."""
    command = [
        sys.executable,
        "-m",
        "accelkit",
        "remediation",
        "--namespace",
        "default",
        "--kubeconfig",
        str(kubeconfig),
    ]
    command += ["--lease", f"default/{NAME}", "--mode", "on", "--pause-seconds", "1", "--healthy-seconds", "2"]
    command += ["--max-unavailable", "1", "--trip-share", "1", *arguments]
    running = []

    def start(number):
        environ = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
        with log.open("ab") as file:
            # Of the same name, so that it need not wait for the Lease of the one that was killed.
            whole = [*command, "--identity", "remediation-0"]
            running.append(subprocess.Popen(whole, stdout=file, stderr=file, env=environ))
        return number

    def restart():
        running[-1].kill()
        running[-1].wait(timeout=30)
        start(len(running))

    start(0)
    try:
        yield restart
    finally:
        running[-1].terminate()
        running[-1].wait(timeout=30)


async def make_node(world):
    """A ready node of two cards with an agent, on which nobody else's pods are put."""
    name = await world.node(2, 8)
    await world.api.patch(f"{NODES}/{name}", {"spec": {"unschedulable": None, "taints": [FOREIGN]}})
    await world.api.patch(f"{NODES}/{name}/status", {"status": {"conditions": [READY]}}, kind="strategic")
    agent = await world.pod(
        node_name=name, labels={"app.kubernetes.io/name": "accelkit-node-agent"}, name=f"agent-{name}", cards=0
    )
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await world.api.patch(f"{PODS}/{agent['metadata']['name']}/status", {"status": status})
    data = {ALLOCATIONS_KEY: encode_allocations(Allocations(name, ()))}
    await world.api.post(CONFIG_MAPS, {"metadata": {"name": name}, "data": data})
    return name


async def read_node(world, name):
    return msgspec.json.decode(await world.api.get(f"{NODES}/{name}"), type=dict)


def list_marks(node):
    """All that remediation may write."""
    annotations = {key: value for key, value in node["metadata"]["annotations"].items() if key != INVENTORY_ANNOTATION}
    conditions = ((each["type"], each["status"]) for each in node["status"]["conditions"])
    kinds = [each for each in conditions if each[0] == "AcceleratorHealthy"]
    # Kubernetes adds some of its own to a node that no kubelet keeps.
    taints = [each for each in node["spec"].get("taints", []) if not each["key"].startswith("node.kubernetes.io/")]
    return annotations, taints, kinds


async def set_card(world, name, health, fault=""):
    node = await read_node(world, name)
    inventory = decode_inventory(node["metadata"]["annotations"][INVENTORY_ANNOTATION])
    first = msgspec.structs.replace(inventory.cards[0], health=health, fault=fault, health_reason=fault)
    changed: Inventory = msgspec.structs.replace(inventory, cards=(first, *inventory.cards[1:]))
    await world.annotate(name, encode_inventory(changed))


async def test_failed_card_is_isolated_drained_and_restored_despite_kills(control_plane, token, tmp_path):
    async with world_of(control_plane.kubeconfig) as world:
        name = await make_node(world)
        before = list_marks(await read_node(world, name))
        victim = await world.pod(4, node_name=name, annotations=assignment(f"{name}-0", 4))
        other = await world.pod(4, node_name=name, annotations=assignment(f"{name}-1", 4))
        try:
            async with remediation_of(token, tmp_path / "log") as restart:
                await set_card(world, name, Health.UNHEALTHY, "xid 79 at 1.0")

                async def isolated():
                    annotations, taints, kinds = list_marks(await read_node(world, name))
                    marked = annotations.get("accelkit.io/cordon") == f"{name}-0" and len(taints) == 2
                    return marked and ("AcceleratorHealthy", "False") in kinds

                await until(isolated)
                restart()
                await until(lambda: find_refusal(world.read(victim)), accept=bool, seconds=60)
                assert await world.read(other)
                await set_card(world, name, Health.HEALTHY)
                restart()
                await until(
                    lambda: read_node(world, name), accept=lambda found: list_marks(found) == before, seconds=60
                )
        finally:
            await undo_all(world.api)
            await world.api.delete(f"{CONFIG_MAPS}/{name}")


async def test_removal_reverts_recorded_changes(control_plane, token, tmp_path):
    async with world_of(control_plane.kubeconfig) as world:
        name = await make_node(world)
        before = list_marks(await read_node(world, name))
        try:
            async with remediation_of(token, tmp_path / "log"):
                await set_card(world, name, Health.UNHEALTHY, "xid 79 at 1.0")
                await until(
                    lambda: read_node(world, name),
                    accept=lambda found: ("AcceleratorHealthy", "False") in list_marks(found)[2],
                )
            assert name in await undo_all(world.api)
            assert list_marks(await read_node(world, name)) == before
        finally:
            await undo_all(world.api)
            await world.api.delete(f"{CONFIG_MAPS}/{name}")


@pytest.fixture
async def bounded(control_plane, token):
    """A world where the policies are in force."""
    async with world_of(control_plane.kubeconfig) as world:
        yield world


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"metadata": {"annotations": {"example.org/x": "y"}}}, "only its own annotations"),
        ({"metadata": {"labels": {"accelkit.io/share": "true"}}}, "must not change labels"),
        ({"spec": {"unschedulable": False}}, "only one taint in the spec"),
        ({"spec": {"taints": None}}, "only the taint"),
        ({"spec": {"taints": [FOREIGN, {"key": "accelkit.io/unhealthy", "effect": "NoExecute"}]}}, "only the taint"),
        ({"metadata": {"annotations": {"accelkit.io/cordon": "0"}}}, ""),
        # Kubernetes taints a node that is not ready, whenever it comes to it, so the others are left as they are.
        ([{"op": "add", "path": "/spec/taints/-", "value": UNHEALTHY}], ""),
    ],
)
async def test_service_changes_only_its_own_marks_on_nodes(control_plane, bounded, change, said):
    name = await bounded.node(1, 8)
    await bounded.api.patch(f"{NODES}/{name}", {"spec": {"taints": [FOREIGN]}})
    async with acting_as(control_plane.kubeconfig, ACCOUNT, "system:masters") as service:
        await until(
            lambda: find_refusal(
                service.patch(f"{NODES}/{name}", {"metadata": {"labels": {"probe": "x"}}}, query={"dryRun": "All"})
            ),
            accept=lambda refused: "must not change labels" in refused,
        )
        kind = "json" if isinstance(change, list) else "merge"
        asked = service.patch(f"{NODES}/{name}", change, kind=kind, query={"dryRun": "All"})
        refused = await find_refusal(asked)
        assert said in refused
        assert bool(refused) is bool(said)


async def test_a_node_without_cards_is_not_tainted(control_plane, bounded):
    name = await bounded.node(annotation="")
    path = f"{NODES}/{name}"
    await bounded.api.patch(path, {"spec": {"taints": [FOREIGN]}})
    taint = [{"op": "add", "path": "/spec/taints/-", "value": UNHEALTHY}]
    async with acting_as(control_plane.kubeconfig, ACCOUNT, "system:masters") as service:

        async def in_force():
            asked = service.patch(path, taint, kind="json", query={"dryRun": "All"})
            return "only to nodes with cards" in await find_refusal(asked)

        async def removed():
            # Kubernetes taints a node that is not ready, whenever it comes to it.
            taints = (await read_node(bounded, name))["spec"]["taints"]
            others = [each for each in taints if each["key"] != UNHEALTHY["key"]]
            asked = service.patch(path, [{"op": "replace", "path": "/spec/taints", "value": others}], kind="json")
            return await find_refusal(asked) == ""

        await until(in_force)
        # A node that lost its inventory keeps the taint until the service removes it.
        await bounded.api.patch(path, taint, kind="json")
        assert await find_refusal(service.patch(path, {"metadata": {"annotations": {"accelkit.io/cordon": "0"}}})) == ""
        await until(removed)


async def test_service_changes_only_one_condition_in_node_status(control_plane, bounded):
    name = await bounded.node(1, 8)
    await bounded.api.patch(f"{NODES}/{name}/status", {"status": {"conditions": [READY]}}, kind="strategic")
    path = f"{NODES}/{name}/status"
    ours = {"type": "AcceleratorHealthy", "status": "False", "reason": "X", "message": "accelkit: x"}
    async with acting_as(control_plane.kubeconfig, ACCOUNT, "system:masters") as service:

        async def in_force():
            change = {"status": {"conditions": [{**READY, "status": "False"}]}}
            # What came through before the policy was in force would change nothing any more.
            asked = service.patch(path, change, kind="strategic", query={"dryRun": "All"})
            return "only the condition AcceleratorHealthy" in await find_refusal(asked)

        await until(in_force)
        await service.patch(path, {"status": {"conditions": [ours]}}, kind="strategic")
        deletion = {"type": "AcceleratorHealthy", "$patch": "delete"}
        await service.patch(path, {"status": {"conditions": [deletion]}}, kind="strategic")
        found = (await read_node(bounded, name))["status"]["conditions"]
        assert [each["type"] for each in found] == ["Ready"]
