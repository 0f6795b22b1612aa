"""The check of the accounting with which site.yml ends, on the embedded cluster."""

import pytest
from impersonation import EXTENDER, acting_as
from test_install import module

from accelkit.enablement.verifying import audit_accounting
from accelkit.kube.objects import delete_if_present, get_if_present
from accelkit.kube.paths import NODES, build_leases_path, build_node_path
from accelkit.model.assignment import Assignment, Share, encode_assignment
from accelkit.model.card import Card
from accelkit.model.inventory import Inventory, encode_inventory
from accelkit.model.keys import ASSIGNMENT_ANNOTATION, INVENTORY_ANNOTATION

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

GIB = 2**30
PODS = "/api/v1/namespaces/default/pods"
LEASES = build_leases_path("kube-system")
AT_THE_END = {"kinds": ["over_capacity", "unassigned_pod", "bound_past_extender"], "bypassing": True, "wait_seconds": 5}


async def test_accounting_reports_pod_bound_without_extender_during_run(cluster, tmp_path):
    await cluster.create_bound_pod("before", "node-1", memory=1)
    await cluster.told("AssignmentRecorded", "before")
    await cluster.api.post(LEASES, {"metadata": {"name": "accelkit-run"}, "spec": {"holderIdentity": "test"}})
    try:
        await cluster.create_bound_pod("during", "node-1", memory=1)
        await cluster.told("AssignmentRecorded", "during")
        # Any user with the ClusterRole edit can write such an Event.
        of = {"kind": "Pod", "namespace": "default", "name": ".."}
        forged = {"metadata": {"name": "forged"}, "involvedObject": of, "reason": "AssignmentRecorded"}
        await cluster.api.post(PODS.replace("pods", "events"), forged)
        found = module(cluster.sandbox, tmp_path, "memory_check", AT_THE_END)
    finally:
        await cluster.api.delete(f"{LEASES}/accelkit-run")
        await delete_if_present(cluster.api, PODS.replace("pods", "events") + "/forged")
    assert found["failed"]
    assert "pod default/during was bound to node-1 without the extender during this run" in found["msg"]
    assert "delete it, so that its controller creates it again" in found["msg"]
    assert not module(cluster.sandbox, tmp_path, "memory_check", AT_THE_END).get("failed")


@pytest.fixture
async def overfull(cluster):
    """A node without a kubelet, with one card, of which two pods are assigned more than it has."""
    inventory = encode_inventory(Inventory(GIB, (Card("ghost-0", "simulated", "sim-16g", 16 * GIB),)))
    metadata = {"name": "ghost", "annotations": {INVENTORY_ANNOTATION: inventory}}
    await cluster.api.post(NODES, {"metadata": metadata})
    assignment = encode_assignment(Assignment({"main": (Share("ghost-0", 9 * GIB),)}))
    limits = {"resources": {"limits": {"accelkit.io/memory": "9"}}}
    async with acting_as(cluster.sandbox.kubeconfig, EXTENDER) as extender:
        for name in ("one", "two"):
            spec = {"schedulerName": "none", "containers": [{"name": "main", "image": "busybox", **limits}]}
            await cluster.api.post(PODS, {"metadata": {"name": name}, "spec": spec})
            target = {"apiVersion": "v1", "kind": "Node", "name": "ghost"}
            bound = {"metadata": {"name": name, "annotations": {ASSIGNMENT_ANNOTATION: assignment}}, "target": target}
            await extender.post(f"{PODS}/{name}/binding", bound)
    try:
        yield cluster
    finally:
        for name in ("one", "two"):
            if await get_if_present(cluster.api, f"{PODS}/{name}") is not None:
                await cluster.api.delete(f"{PODS}/{name}", {"gracePeriodSeconds": 0})
        await cluster.api.delete(build_node_path("ghost"))


async def test_accounting_reports_card_over_capacity_with_its_pods(overfull, tmp_path):
    found = module(overfull.sandbox, tmp_path, "memory_check", AT_THE_END)
    message = "card ghost-0 of ghost has 16 GiB, but its shares use 18 GiB, held by default/one, default/two"
    assert message in found["msg"]
    audited = await audit_accounting(overfull.api, namespace="accelkit", nodes=["ghost"], seconds=0)
    assert (audited.outcome, [each.kind for each in audited.differences][:1]) == ("fail", ["over_capacity"])


@pytest.mark.long
async def test_site_playbook_ends_with_accounting(overfull):
    done = overfull.sandbox.playbook("site.yml", "--tags", "accounting", check=False)
    assert done.returncode != 0
    assert "held by default/one, default/two. Delete pods of a card over its capacity" in done.stdout.replace("\n", " ")
