"""What the token of a node agent is good for: keys of its own node, and Events of its own, on a real API server."""

import pytest
from impersonation import acting_as_agent, find_refusal
from support.waiting import until
from test_node_agent import agent_of

from accelkit.errors import ApiError

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


@pytest.mark.parametrize(
    ("table", "key", "ours"),
    [
        ("labels", "node-restriction.kubernetes.io/team", False),
        ("labels", "accelkit.io/share", False),
        ("labels", "kubernetes.io/hostname", False),
        ("labels", "feature.node.kubernetes.io/custom-trusted", False),
        ("labels", "nvidia.com/gpu.counted", False),
        ("labels", "accelkit.io/cards.test", True),
        ("labels", "feature.node.kubernetes.io/pci-0302_1234.present", True),
        ("labels", "gpu.intel.com/numa-gpu-map3", True),
        ("annotations", "example.com/other", False),
        ("annotations", "accelkit.io/shared-as", False),
        ("annotations", "accelkit.io/labels", True),
        ("annotations", "accelkit.io/mended", True),
    ],
)
async def test_agent_writes_only_accelkit_keys_of_own_node(cluster, table, key, ours):
    kept = (await cluster.get("/api/v1/nodes/node-1"))["metadata"][table].get(key)
    async with agent_of(cluster, "node-1") as agent:
        change = {"metadata": {table: {key: "{}" if table != "labels" else "x"}}}
        said = await find_refusal(agent.patch("/api/v1/nodes/node-1", change))
        assert (said == "") is ours
        assert ours or ("the node agent may change only" in said and f" {table} of" in said)
        if ours:
            await agent.patch("/api/v1/nodes/node-1", {"metadata": {table: {key: kept}}})


EVENT = {"reason": "Test", "message": "a test", "type": "Normal", "metadata": {"name": "test.1"}}
NODE_1 = {"kind": "Node", "name": "node-1"}


@pytest.mark.parametrize(
    ("involved", "host", "instance", "taken"),
    [
        (NODE_1, "node-1", "node-1", True),
        ({"kind": "Pod", "name": "p", "namespace": "default"}, "node-1", "node-1", True),
        ({**NODE_1, "name": "node-2"}, "node-1", "node-1", False),
        ({"kind": "Secret", "name": "s", "namespace": "default"}, "node-1", "node-1", False),
        (NODE_1, "node-2", "node-1", False),
        (NODE_1, "node-1", "node-2", False),
    ],
)
async def test_agent_creates_events_only_about_own_node_and_pods(cluster, involved, host, instance, taken):
    event = {**EVENT, "involvedObject": involved, "source": {"component": "c", "host": host}}
    event |= {"reportingComponent": "c", "reportingInstance": instance}
    path = "/api/v1/namespaces/default/events"
    async with agent_of(cluster, "node-1") as agent:
        said = await find_refusal(agent.post(path, event))
        assert (said == "") is taken
        assert taken or "write Events only about its node and pods, in its own name" in said
        if taken:
            with pytest.raises(ApiError, match="cannot delete resource"):
                await agent.delete(f"{path}/test.1")
            await cluster.api.delete(f"{path}/test.1")


async def test_events_of_newer_api_group_follow_same_rule(cluster):
    event = {"regarding": {**NODE_1, "name": "node-2"}, "reason": "Test", "note": "a test", "type": "Normal"}
    event |= {"reportingController": "c", "reportingInstance": "node-1", "action": "Test"}
    event |= {"eventTime": "2026-01-01T00:00:00.000000Z", "metadata": {"name": "test.2"}}
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    rule = {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create"]}
    subject = {"kind": "ServiceAccount", "name": "accelkit-node-agent", "namespace": "accelkit"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "more"}
    async with agent_of(cluster, "node-1") as agent:
        path = "/apis/events.k8s.io/v1/namespaces/default/events"
        with pytest.raises(ApiError, match="cannot create resource"):
            await agent.post(path, event)
        await cluster.api.post(f"{rbac}/roles", {"metadata": {"name": "more"}, "rules": [rule]})
        binding = {"metadata": {"name": "more"}, "roleRef": reference, "subjects": [subject]}
        await cluster.api.post(f"{rbac}/rolebindings", binding)
        try:
            said = "write Events only about its node and pods"
            await until(lambda: find_refusal(agent.post(path, event)), accept=lambda found: said in found, every=0.2)
        finally:
            await cluster.api.delete(f"{rbac}/rolebindings/more")
            await cluster.api.delete(f"{rbac}/roles/more")


CONFIG_MAP = "/api/v1/namespaces/accelkit/configmaps/node-1"
LABELS = {"app.kubernetes.io/part-of": "accelkit", "app.kubernetes.io/component": "allocations"}


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"finalizers": ["example.com/stay"]}},
        {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]}},
        {"metadata": {"labels": {"app.kubernetes.io/component": "other"}}},
        {"metadata": {"labels": {"app.kubernetes.io/part-of": None}}},
        {"metadata": {"labels": {"example.com/other": "x"}}},
        {"metadata": {"annotations": {"example.com/other": "x"}}},
        {"immutable": True},
    ],
)
async def test_agent_changes_only_data_of_own_config_map(cluster, change):
    async with agent_of(cluster, "node-1") as agent:
        assert "the node agent" in await find_refusal(agent.patch(CONFIG_MAP, change))
        assert await find_refusal(agent.patch(CONFIG_MAP, {"metadata": {"labels": LABELS}})) == ""


async def test_agent_creates_config_map_only_with_own_labels_and_no_finalizer(cluster):
    folder = CONFIG_MAP.rpartition("/")[0]
    async with acting_as_agent(cluster.sandbox.kubeconfig, "made-node") as agent:
        for metadata in ({"finalizers": ["example.com/stay"]}, {"labels": {"example.com/other": "x"}}):
            body = {"metadata": {"name": "made-node", **metadata}}
            assert "the node agent" in await find_refusal(agent.post(folder, body))
        await agent.post(folder, {"metadata": {"name": "made-node", "labels": LABELS}})
    await cluster.api.delete(f"{folder}/made-node")


async def test_agent_repairs_config_map_labels_changed_by_administrator(cluster):
    damage = {
        "metadata": {"labels": {**LABELS, "app.kubernetes.io/component": "x", "team": "y"}, "annotations": {"a": "b"}}
    }
    await cluster.api.patch(CONFIG_MAP, damage)
    async with agent_of(cluster, "node-1") as agent:
        await agent.patch(CONFIG_MAP, {"metadata": {"labels": LABELS}})
    metadata = (await cluster.get(CONFIG_MAP))["metadata"]
    assert metadata["labels"] == {**LABELS, "team": "y"}
    await cluster.api.patch(CONFIG_MAP, {"metadata": {"labels": {"team": None}, "annotations": {"a": None}}})
