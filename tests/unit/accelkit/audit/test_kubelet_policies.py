"""Kubelets are asked for their policy side by side, and none keeps the others waiting."""

import asyncio

from accelkit.audit import kubelet_policies
from accelkit.audit.kubelet_policies import read_policies

SILENT = {f"silent-{number:02}" for number in range(40)}


async def test_unresponsive_kubelets_delay_audit_by_one_deadline_only(audited_cluster):
    cluster = audited_cluster({}, {})
    for node in ("a", "z"):
        cluster.configure(node, topologyManagerPolicy="restricted")
    cluster.before.append(hang)
    async with asyncio.timeout(30):
        policies, problems = await read_policies(cluster, {"a", "z", *sorted(SILENT)[:3]}, seconds=2)
        assert policies == {"a": "restricted", "z": "restricted"}
        assert problems == dict.fromkeys(sorted(SILENT)[:3], "no response within 2 s")
        # Some that hang take all turns, so that others were not reached.
        policies, problems = await read_policies(cluster, {*SILENT, "z"}, seconds=0.2)
    assert (policies, problems.keys()) == ({}, {*SILENT, "z"})


async def test_concurrent_kubelet_requests_are_limited(audited_cluster):
    cluster = audited_cluster({}, {})
    nodes = [f"n-{number:02}" for number in range(40)]
    for node in nodes:
        cluster.configure(node)
    under_way, most = 0, 0

    async def count(_request):
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.01)
        under_way -= 1

    cluster.before.append(count)
    policies, problems = await read_policies(cluster, nodes)
    assert (list(policies), problems) == (nodes, {})
    assert most == kubelet_policies._AT_ONCE


async def hang(request):
    if "silent" in request.path:
        await asyncio.Event().wait()
