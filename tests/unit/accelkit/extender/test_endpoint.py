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


async def test_the_slice_that_is_missing_is_made_for_the_service_and_names_us_alone(world):
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
async def test_every_version_knows_what_is_written(world, minor):
    endpoint = LeaderEndpoint("d", "s", "10.0.0.1", 32766, "pod-a", read_port=32764)
    await EndpointWriter(world.api, endpoint).write()
    for path in (SLICE, "/api/v1/namespaces/d/endpoints/s"):
        assert violations(world.api.objects[path], minor) == []


async def test_a_successor_takes_the_place_of_its_predecessor_and_keeps_what_else_is_there(world):
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
async def test_what_others_changed_is_put_right(world, key):
    await world.write()
    right, world.slice[key] = world.slice[key], []
    await world.write()
    assert world.slice[key] == right
    assert [request.method for request in world.api.writes] == ["POST", "PUT"]


async def test_a_write_past_somebody_elses_is_refused_and_overwrites_nothing(world):
    await world.write()
    changed = [{"name": "other", "port": 1, "protocol": "TCP"}]
    world.api.before.append(lambda request: world.slice.update(ports=changed) if request.method == "PUT" else None)
    with pytest.raises(ApiError) as refused:
        await world.write("10.0.0.2")
    assert refused.value.conflict
    assert world.slice["ports"] == changed


async def test_addresses_of_the_other_family_take_two_turns_since_the_type_cannot_be_changed(world):
    await world.write()
    await world.write("fd00::1")
    assert SLICE not in world.api.objects
    await world.write("fd00::1")
    assert (world.slice["addressType"], world.slice["endpoints"][0]["addresses"]) == ("IPv6", ["fd00::1"])


async def test_a_slice_without_an_owner_keeps_none(world):
    await world.write()
    del world.slice["metadata"]["ownerReferences"]
    await world.write("10.0.0.2")
    assert "ownerReferences" not in world.slice["metadata"]


async def test_a_replica_that_is_no_pod_names_none(world):
    await world.write(pod="")
    assert world.slice["endpoints"][0].keys() == {"addresses", "conditions"}
    assert LeaderEndpoint("d", "s", "10.0.0.1", 1).pod == ""


async def test_without_the_service_there_is_nothing_to_lead_here(world):
    world.api.objects.clear()
    with pytest.raises(ApiError) as refused:
        await world.write()
    assert refused.value.not_found
    assert world.api.objects == {}


async def test_while_it_runs_it_goes_on_after_failures_and_puts_right_what_changes(world, monkeypatch, caplog):
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


async def test_readers_are_led_to_their_port_by_the_slice_and_by_endpoints_which_are_not_mirrored(world):
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


async def test_endpoints_follow_the_leader_and_are_written_only_where_they_differ(world):
    await write_with_read_port(world)
    await write_with_read_port(world)
    assert [request.method for request in world.api.writes] == ["POST", "POST"]
    await write_with_read_port(world, "10.0.0.2", "pod-b")
    (subset,) = world.api.objects[ENDPOINTS]["subsets"]
    assert subset["addresses"][0]["ip"] == "10.0.0.2"
    del world.api.objects[ENDPOINTS]["subsets"]
    await write_with_read_port(world, "10.0.0.2", "pod-b")
    assert world.api.objects[ENDPOINTS]["subsets"] == [subset]


async def test_without_a_read_port_there_are_no_endpoints(world):
    await world.write()
    assert ENDPOINTS not in world.api.objects
