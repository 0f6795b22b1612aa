import asyncio
import json
import time

import msgspec
import pytest
from support.requests import build_inventory
from support.waiting import until

from accelkit.errors import ApiError, BindingError
from accelkit.extender.binder import Binder
from accelkit.extender.wire import BindingArgs
from accelkit.ledger.holding import ShareStage
from accelkit.model.assignment import Assignment, Share, encode_assignment
from accelkit.model.card import Card
from accelkit.model.inventory import Inventory
from accelkit.model.keys import ASSIGNMENT_ANNOTATION
from accelkit.placement.policies import Policy

LOST = ApiError("no answer")
OTHERS = encode_assignment(Assignment({"c": (Share("z", 99),)}))


@pytest.mark.parametrize("watched", [True, False])
async def test_bind_writes_assignment_and_binding_in_one_request(world, watched):
    world.create(watched=watched)
    assert await world.bind() == ""
    (post,) = world.api.posts
    assert post["metadata"]["uid"] == "uid-p"
    assert post["target"]["name"] == "n"
    text = world.api.pods["p"]["metadata"]["annotations"][ASSIGNMENT_ANNOTATION]
    assert json.loads(text)["containers"] == {"c": [{"card": "a", "memory_bytes": 4}]}
    assert (world.used(), world.stage()) == ({"a": 4}, ShareStage.BOUND)


async def test_bind_overwrites_assignment_written_by_user(world):
    world.create(**{ASSIGNMENT_ANNOTATION: OTHERS})
    assert await world.bind() == ""
    assert world.api.pods["p"]["metadata"]["annotations"][ASSIGNMENT_ANNOTATION] != OTHERS


async def test_pod_without_cards_is_bound_without_assignment(world):
    world.create(memory=0)
    assert await world.bind() == ""
    assert world.api.pods["p"]["metadata"]["annotations"] == {}
    assert len(world.ledger) == 0


@pytest.mark.parametrize("field", ["PodName", "PodNamespace", "PodUID", "Node"])
async def test_bind_names_missing_field_and_sends_nothing(world, field):
    world.create()
    args = msgspec.structs.replace(BindingArgs("p", "d", "uid-p", "n"), **{field: ""})
    with pytest.raises(BindingError, match=f"^{field} is missing$"):
        await world.binder.bind(args)
    assert (world.api.posts, world.used()) == ([], {})


@pytest.mark.parametrize("field", ["PodName", "PodNamespace", "Node"])
@pytest.mark.parametrize("value", ["../x", "a/b", "a?b", "A", "-a", "a" * 254, "a\n"])
async def test_bind_refuses_invalid_object_name(world, field, value):
    args = msgspec.structs.replace(BindingArgs("p", "d", "uid-p", "n"), **{field: value})
    with pytest.raises(BindingError, match="not a valid name for a Kubernetes object"):
        await world.binder.bind(args)
    assert (world.api.posts, world.api.gets) == ([], 0)


async def test_bind_refuses_pod_that_no_longer_fits(world):
    world.create(memory=17)
    assert await world.bind() == "insufficient accelkit.io/memory in one card"
    assert (world.api.posts, world.used()) == ([], {})


async def test_refusal_uses_the_dialect_of_the_pod(world):
    world.create(memory=17, resource="enflame.com/gcu-memory")
    assert await world.bind() == "insufficient GCU Memory in one gcu device"


async def test_bind_refuses_unknown_node(world):
    world.create()
    assert await world.bind(node="nowhere") == "node is unknown to accelkit"
    assert world.api.posts == []


async def test_bind_refuses_ungrantable_request_with_reason(world):
    world.create(**{"accelkit.io/request": '{"c": {"split": 3}}'})
    assert "cannot be split evenly over 3 cards" in await world.bind()
    world.create("q", watched=False, **{"accelkit.io/request": '{"c": {"split": 3}}'})
    assert "cannot be split evenly over 3 cards" in await world.bind("q")


async def test_unreachable_api_server_fails_the_bind(world):
    world.create(watched=False)
    world.api.fail(LOST, "GET")
    assert await world.bind() == "no answer"
    assert world.used() == {}


async def test_pod_already_bound_to_node_succeeds_with_its_own_assignment(world):
    world.create()
    world.bound_elsewhere("n")
    assert await world.bind() == ""
    assert (world.used(), world.stage()) == ({"b": 4}, ShareStage.BOUND)


@pytest.mark.parametrize("watched", [True, False])
async def test_pod_bound_to_another_node_is_refused_and_charged_to_that_node(world, watched):
    world.create(watched=watched)
    world.bound_elsewhere("m")
    assert await world.bind() == "pod d/p is already bound to node m"
    assert (world.used("n"), world.used("m")) == ({}, {"b": 4})


@pytest.mark.parametrize("watched", [True, False])
async def test_replaced_pod_is_refused_and_holds_nothing(world, watched):
    world.create(watched=watched)
    world.api.pods["p"]["metadata"]["uid"] = "uid-new"
    assert "has been replaced (UID uid-new, not uid-p)" in await world.bind()
    assert world.used() == {}


async def test_deleted_pod_is_refused_and_holds_nothing(world):
    world.create()
    world.api.remove("p")
    assert "no longer exists" in await world.bind()
    assert world.used() == {}


async def test_forbidden_binding_releases_the_reservation(world):
    world.create()
    world.api.fail(ApiError("pods/binding is forbidden", status=403), "POST")
    assert await world.bind() == "cannot bind pod d/p to node n: pods/binding is forbidden"
    # So clear a refusal is not asked about.
    assert (world.api.gets, world.used()) == (0, {})
    assert await world.bind() == ""


async def test_released_reservation_is_reported_immediately(world, monkeypatch):
    world.create()
    free = []
    monkeypatch.setattr(world.binder, "_on_released", lambda uid: free.append((uid, world.used())))
    world.api.fail(ApiError("pods/binding is forbidden", status=403), "POST")
    await world.bind()
    assert free == [("uid-p", {})]


async def test_concurrent_identical_binds_send_one_binding(world):
    world.create()
    world.api.gate.clear()
    binds = [asyncio.create_task(world.bind()) for _ in range(5)]
    await until(lambda: world.api.posts)
    assert await world.bind(node="m") == "pod d/p is already being bound to node n"
    world.api.gate.set()
    assert await asyncio.gather(*binds) == [""] * 5
    assert len(world.api.posts) == 1


async def test_disconnected_caller_does_not_cancel_the_binding(world):
    world.create()
    world.api.gate.clear()
    first, second = asyncio.create_task(world.bind()), asyncio.create_task(world.bind())
    await until(lambda: world.api.posts)
    first.cancel()
    world.api.gate.set()
    assert await second == ""
    assert world.stage() is ShareStage.BOUND


async def test_shutdown_waits_for_running_binds_and_refuses_new_ones(world):
    world.create()
    world.api.gate.clear()
    hung_up = asyncio.create_task(world.bind())
    await until(lambda: world.api.posts)
    hung_up.cancel()
    end = asyncio.create_task(world.binder.finish())
    await asyncio.sleep(0.05)
    assert not end.done()
    world.create(uid="late")
    assert await world.bind(uid="late") == "the extender is shutting down"
    world.api.gate.set()
    await end
    assert world.stage() is ShareStage.BOUND
    assert len(world.api.posts) == 1


async def test_pod_deleted_during_bind_holds_nothing(world):
    world.create()
    world.api.gate.clear()
    bind = asyncio.create_task(world.bind())
    await until(lambda: world.api.posts)
    world.show("p", "DELETED")
    world.api.remove("p")
    world.api.gate.set()
    assert "no longer exists" in await bind
    assert (world.used(), world.stage()) == ({}, None)


async def test_concurrent_binds_never_exceed_card_capacity(world):
    names = [f"p{number}" for number in range(12)]
    for name in names:
        world.create(name, memory=6)
    answers = await asyncio.gather(*(world.bind(name) for name in names))
    assert answers.count("") == 4
    assert world.used() == {"a": 12, "b": 12}


async def test_bind_overwrites_dialect_annotations_written_by_user(world):
    world = type(world)(("native", "aliyun"))
    world.ledger.put_node("n", build_inventory("a", index=0))
    mine = {"ALIYUN_COM_GPU_MEM_IDX": "7", "ALIYUN_COM_GPU_MEM_ASSIGN_TIME": "1"}
    world.create(resource="aliyun.com/gpu-mem", **mine)
    assert await world.bind() == ""
    annotations = world.api.pods["p"]["metadata"]["annotations"]
    assert {key: annotations[key] for key in mine} == {
        "ALIYUN_COM_GPU_MEM_IDX": "0",
        "ALIYUN_COM_GPU_MEM_ASSIGN_TIME": "",
    }
    assert ASSIGNMENT_ANNOTATION in annotations


async def test_bind_accepts_any_uid(world):
    world.create()
    world.api.pods["p"]["metadata"]["uid"] = "Any UID"
    world.show("p")
    assert await world.bind(uid="Any UID") == ""


async def test_bind_writes_native_assignment_if_dialect_cannot_express_the_cards(world, caplog):
    world = type(world)(("native", "aliyun"))
    # Without a number that the dialect could name.
    world.ledger.put_node("n", build_inventory("a"))
    world.create(resource="aliyun.com/gpu-mem")
    assert await world.bind() == ""
    assert list(world.api.pods["p"]["metadata"]["annotations"]) == [ASSIGNMENT_ANNOTATION]
    assert "cannot write the annotations of pod d/p for dialect aliyun" in caplog.text


@pytest.mark.parametrize("status", [404, 409])
async def test_refusal_of_unbound_pod_releases_the_reservation(world, status):
    world.create()
    world.api.fail(ApiError("node is gone", status=status), "POST")
    assert await world.bind() == "cannot bind pod d/p to node n: node is gone"
    assert (world.api.gets, world.used()) == (1, {})


async def test_binds_wait_until_binder_is_opened(world):
    world.create()
    world.create("q")
    world.binder.begin_term(time.monotonic() + 60)
    binding = asyncio.create_task(world.bind())
    await asyncio.sleep(0.05)
    assert world.api.posts == []
    world.binder.open()
    assert await world.bind("q") == ""
    # Those that wait already go on as well.
    assert await binding == ""
    assert world.binder.try_open()


async def test_container_limits_are_written_with_the_binding_if_enabled(world):
    world.ledger.put_node("n", Inventory(1, (Card("a", "nvidia", "m", 16),)))
    world.create(**{"nvidia.com/container.c.gpu-memory.limit": "80Gi"})
    world.create("q")
    world.binder = Binder(
        world.api, world.ledger, world.feed, Policy.BINPACK, container_limits=True, readiness=world.readiness
    )
    assert [await world.bind(), await world.bind("q")] == ["", ""]
    for name in "pq":
        annotations = world.api.pods[name]["metadata"]["annotations"]
        assert annotations["nvidia.com/container.c.gpu-memory.limit"] == "1Mi"
        assert ASSIGNMENT_ANNOTATION in annotations
