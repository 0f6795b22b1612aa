import json

import pytest
from fake_api.server import FakeApi

from accelkit.errors import ApiError
from accelkit.install.cluster import Cluster, ClusterNode, read_cluster
from accelkit.kube.paths import NODES


def node(name, *, addresses=None, **labels):
    status = {} if addresses is None else {"addresses": [{"type": kind, "address": at} for kind, at in addresses]}
    return {"metadata": {"name": name, "labels": labels or None}, "status": status}


async def read(*nodes):
    api = FakeApi()
    api.documents["/version"] = json.dumps({"gitVersion": "v1.34.4"}).encode()
    for each in nodes:
        api.store(NODES, each)
    return await read_cluster(api)


async def test_version_and_nodes_are_read_in_name_order():
    found = await read(node("b"), node("a", addresses=[("Hostname", "a.example"), ("InternalIP", "192.0.2.1")]))
    assert found == Cluster(
        server="https://fake",
        version="v1.34.4",
        nodes=(
            ClusterNode(name="a", address="192.0.2.1", control_plane=False),
            ClusterNode(name="b", address="", control_plane=False),
        ),
    )


@pytest.mark.parametrize("role", ["control-plane", "master"])
async def test_either_role_label_marks_control_plane_node(role):
    found = await read(node("a", **{f"node-role.kubernetes.io/{role}": ""}))
    assert found.nodes[0].control_plane


@pytest.mark.parametrize(
    ("addresses", "address"),
    [
        ([("InternalIP", "192.0.2.1"), ("InternalIP", "2001:db8::1")], "192.0.2.1"),
        ([("Hostname", "a.example")], "a.example"),
        ([("ExternalIP", "198.51.100.1")], ""),
        ([], ""),
    ],
)
async def test_node_address_is_first_internal_ip_or_else_hostname(addresses, address):
    assert (await read(node("a", addresses=addresses))).nodes[0].address == address


async def test_unreachable_api_server_raises_api_error(api):
    api.fail(ApiError("GET https://fake/version received no response: refused"), path="/version")
    with pytest.raises(ApiError, match="received no response: refused"):
        await read_cluster(api)
