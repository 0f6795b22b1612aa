import asyncio
import logging

import pytest
from fake_api.server import FakeApi
from served_objects import MINORS, violations

from accelkit.errors import ApiError
from accelkit.extender import endpoint as module
from accelkit.extender.endpoint import EndpointWriter, LeaderEndpoint

SLICES = "/apis/discovery.k8s.io/v1/namespaces/d/endpointslices"
SLICE = f"{SLICES}/s"


class World:
    def __init__(self):
        self.api = FakeApi()
        self.api.store("/api/v1/namespaces/d/services", {"metadata": {"name": "s", "uid": "uid-s"}})

    async def write(self, address="10.0.0.1", pod="pod-a"):
        await EndpointWriter(self.api, LeaderEndpoint("d", "s", address, 32766, pod)).write()

    @property
    def slice(self):
        return self.api.objects[SLICE]


@pytest.fixture
def world():
    return World()


async def test_missing_slice_is_created_for_the_service_with_this_replica_only(world):
    await world.write()
    assert world.slice == {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "s",
            "namespace": "d",
            "labels": {
                "kubernetes.io/service-name": "s",
                "endpointslice.kubernetes.io/managed-by": "accelkit.io",
                "app.kubernetes.io/part-of": "accelkit",
            },
            "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "s", "uid": "uid-s"}],
        },
        "addressType": "IPv4",
        "endpoints": [
            {
                "addresses": ["10.0.0.1"],
                "conditions": {"ready": True},
                "targetRef": {"kind": "Pod", "namespace": "d", "name": "pod-a"},
            }
        ],
        "ports": [{"name": "https", "port": 32766, "protocol": "TCP"}],
    }


@pytest.mark.parametrize("minor", MINORS)
async def test_written_objects_are_valid_in_every_kubernetes_version(world, minor):
    endpoint = LeaderEndpoint("d", "s", "10.0.0.1", 32766, "pod-a", read_port=32764)
    await EndpointWriter(world.api, endpoint).write()
    for path in (SLICE, "/api/v1/namespaces/d/endpoints/s"):
        assert violations(world.api.objects[path], minor) == []


async def test_new_leader_replaces_endpoint_and_keeps_other_metadata(world):
    await world.write()
    world.slice["metadata"] |= {"annotations": {"kept": "yes"}, "labels": {"others": "x"}, "uid": "uid-slice"}
    await world.write("10.0.0.2", "pod-b")
    assert world.slice["endpoints"][0]["addresses"] == ["10.0.0.2"]
    assert world.slice["endpoints"][0]["targetRef"]["name"] == "pod-b"
    metadata = world.slice["metadata"]
    assert (metadata["annotations"], metadata["uid"]) == ({"kept": "yes"}, "uid-slice")
    assert metadata["labels"]["kubernetes.io/service-name"] == "s"
    assert metadata["ownerReferences"][0]["uid"] == "uid-s"


@pytest.mark.parametrize("key", ["endpoints", "ports"])
async def test_foreign_change_of_slice_is_reverted(world, key):
    await world.write()
    right, world.slice[key] = world.slice[key], []
    await world.write()
    assert world.slice[key] == right
    assert [request.method for request in world.api.writes] == ["POST", "PUT"]


async def test_conflicting_write_is_refused_and_overwrites_nothing(world):
    await world.write()
    changed = [{"name": "other", "port": 1, "protocol": "TCP"}]
    world.api.before.append(lambda request: world.slice.update(ports=changed) if request.method == "PUT" else None)
    with pytest.raises(ApiError) as refused:
        await world.write("10.0.0.2")
    assert refused.value.conflict
    assert world.slice["ports"] == changed


async def test_slice_is_deleted_and_recreated_for_another_address_family(world):
    await world.write()
    await world.write("fd00::1")
    assert SLICE not in world.api.objects
    await world.write("fd00::1")
    assert (world.slice["addressType"], world.slice["endpoints"][0]["addresses"]) == ("IPv6", ["fd00::1"])


async def test_update_adds_no_owner_reference_to_slice_without_owner(world):
    await world.write()
    del world.slice["metadata"]["ownerReferences"]
    await world.write("10.0.0.2")
    assert "ownerReferences" not in world.slice["metadata"]


async def test_replica_without_pod_has_no_target_reference(world):
    await world.write(pod="")
    assert world.slice["endpoints"][0].keys() == {"addresses", "conditions"}
    assert LeaderEndpoint("d", "s", "10.0.0.1", 1).pod == ""


async def test_missing_service_is_an_error_and_creates_no_slice(world):
    world.api.objects.clear()
    with pytest.raises(ApiError) as refused:
        await world.write()
    assert refused.value.not_found
    assert world.api.objects == {}


async def test_endpoint_writer_retries_after_failures_and_recreates_slice(world, monkeypatch, caplog):
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(module, "_CHECK_SECONDS", 0.001)
    world.api.fail(ApiError("no answer"))
    running = asyncio.create_task(EndpointWriter(world.api, LeaderEndpoint("d", "s", "10.0.0.1", 1)).run())
    async with asyncio.timeout(60):
        while SLICE not in world.api.objects:
            await asyncio.sleep(0)
        # What cannot be understood may be put right by who wrote it.
        for text, sentence in ((b'{"metadata": {}}', "'addressType'"), (b"{", "truncated"), (b"[]", "indices")):
            world.api.documents[SLICE] = text
            while sentence not in caplog.text:
                await asyncio.sleep(0)
        del world.api.documents[SLICE], world.api.objects[SLICE]
        while SLICE not in world.api.objects:
            await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert caplog.messages[0] == "cannot write the EndpointSlice of Service s: no answer"
    # The address stays for a successor.
    assert world.slice["endpoints"][0]["addresses"] == ["10.0.0.1"]


ENDPOINTS = "/api/v1/namespaces/d/endpoints/s"


async def write_with_read_port(world, address="10.0.0.1", pod="pod-a", read_port=32764):
    await EndpointWriter(world.api, LeaderEndpoint("d", "s", address, 32766, pod, read_port)).write()


async def test_read_port_is_published_in_slice_and_unmirrored_endpoints(world):
    await write_with_read_port(world)
    read = {"name": "read", "port": 32764, "protocol": "TCP"}
    assert world.slice["ports"] == [{"name": "https", "port": 32766, "protocol": "TCP"}, read]
    assert world.api.objects[ENDPOINTS] == {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {
            "name": "s",
            "namespace": "d",
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true", "app.kubernetes.io/part-of": "accelkit"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "s", "uid": "uid-s"}],
        },
        # The API server proxies to an address only where a pod of the namespace has it.
        "subsets": [
            {
                "addresses": [{"ip": "10.0.0.1", "targetRef": {"kind": "Pod", "namespace": "d", "name": "pod-a"}}],
                "ports": [read],
            }
        ],
    }


async def test_endpoints_are_updated_only_when_the_leader_or_content_changes(world):
    await write_with_read_port(world)
    await write_with_read_port(world)
    assert [request.method for request in world.api.writes] == ["POST", "POST"]
    await write_with_read_port(world, "10.0.0.2", "pod-b")
    (subset,) = world.api.objects[ENDPOINTS]["subsets"]
    assert subset["addresses"][0]["ip"] == "10.0.0.2"
    del world.api.objects[ENDPOINTS]["subsets"]
    await write_with_read_port(world, "10.0.0.2", "pod-b")
    assert world.api.objects[ENDPOINTS]["subsets"] == [subset]


async def test_no_endpoints_are_written_without_read_port(world):
    await world.write()
    assert ENDPOINTS not in world.api.objects
