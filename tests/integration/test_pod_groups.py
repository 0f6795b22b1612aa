"""Pod groups on the real kube-apiserver and kube-scheduler: all members are bound, or none is and none holds a card.

The extender has the rights that its role gives it, and no more.
"""

from __future__ import annotations

import asyncio
import uuid

import pytest
from cluster_objects import kubeconfig_of
from extender_process import MEMORY, PODS, Process, client_of, inventory, world_of
from impersonation import find_refusal
from pod_groups_site import (
    ACCOUNT,
    COSCHEDULING,
    NAME,
    OWN_POD_GROUPS,
    POD_GROUPS,
    SIZE,
    Site,
    prepare,
    read_role,
    tidy_up,
)
from real_scheduler import build_configuration, run_scheduler
from support.waiting import until

from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.model.keys import FENCED_AT_ANNOTATION

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

HOLD, RESERVED = 2, 6


@pytest.fixture(scope="module")
def account(control_plane):
    """The kubeconfig of an extender's service account."""

    async def set_up():
        async with ApiClient(load_connection(control_plane.kubeconfig)) as api:
            await prepare(api)
        return await kubeconfig_of(control_plane, ACCOUNT, read_role())

    async def tear_down():
        async with ApiClient(load_connection(control_plane.kubeconfig)) as api:
            await tidy_up(api)

    yield asyncio.run(set_up())
    asyncio.run(tear_down())


@pytest.fixture(scope="module")
def extender(account, tmp_path_factory):
    seconds = ("--pod-group-hold", str(HOLD), "--pod-group-seconds", str(RESERVED))
    options = ("--kubeconfig", str(account), "--wake", "--pod-groups", *seconds)
    with Process(tmp_path_factory.mktemp("logs"), *options) as process:
        yield process


@pytest.fixture(scope="module")
def kube_scheduler(control_plane, extender, tmp_path_factory):
    entry = {
        "urlPrefix": extender.url,
        "filterVerb": "filter",
        "bindVerb": "bind",
        "nodeCacheCapable": True,
        "managedResources": [{"name": MEMORY, "ignoredByScheduler": True}],
    }
    config = build_configuration(NAME, control_plane.paths.build_kubeconfig_path("kube-scheduler"), entry)
    with run_scheduler(config, tmp_path_factory.mktemp("scheduler")) as log:
        yield log


@pytest.fixture
async def site(control_plane, extender, kube_scheduler):
    async with world_of(control_plane.kubeconfig) as world, client_of(extender) as client:
        yield Site(world, client)


async def test_gated_group_is_bound_completely_after_last_pod_is_created(site):
    await site.add_nodes(2)
    group = site.name()
    pods = await site.pods(group, 3, 8, size=4)
    await site.told(pods, "PodGroupWaiting", "3 of 4 pods exist")
    assert await site.placed(pods) == [None] * 3
    assert await site.used() == 0
    pods.append(await site.pod(group, 8, size=4))
    await site.bound(pods)
    assert sorted(await site.placed(pods)) == sorted(site.nodes * 2)


async def test_group_that_does_not_fit_holds_no_cards_until_room_exists(site):
    await site.add_nodes(1)
    pods = await site.pods(site.name(), 3, 8, size=3)
    await site.told(pods, "PodGroupWaiting", "does not fit as a whole: room for 2 of 3 pods")
    assert await site.placed(pods) == [None] * 3
    assert await site.used() == 0
    await site.world.annotate(site.nodes[0], inventory(site.nodes[0], 2, 16))
    await site.bound(pods)


@pytest.mark.parametrize("gated", [True, False])
async def test_second_competing_group_is_bound_after_first_is_deleted(site, gated):
    await site.add_nodes(2)
    groups = site.name(), site.name()
    pods = {group: [] for group in groups}
    for _ in range(3):
        for group in groups:
            pods[group].append(await site.pod(group, 8, size=3, gated=gated))

    async def winner():
        found = {group: await site.placed(pods[group]) for group in groups}
        # Four shares fit: neither may have one of them while the other has three.
        for group, other in (groups, groups[::-1]):
            assert not (any(found[group]) and any(found[other])), found
        return next((group for group in groups if all(found[group])), None)

    won = await until(winner)
    lost = next(group for group in groups if group != won)
    assert await site.placed(pods[lost]) == [None] * 3
    for pod in pods[won]:
        await site.world.delete(pod, seconds=0)
    await site.bound(pods[lost])


async def test_binds_without_gates_wait_for_all_pods_of_group(site):
    await site.add_nodes(2)
    group = site.name()
    pods = await site.pods(group, 3, 8, size=4, gated=False)
    await site.told(pods, "FailedScheduling", "3 of 4 pods exist")
    assert await site.placed(pods) == [None] * 3
    assert await site.used() == 0
    pods.append(await site.pod(group, 8, size=4, gated=False))
    await site.bound(pods)


async def test_reservation_of_group_is_released_after_timeout(site):
    await site.add_nodes(1)
    # No scheduler looks at them once their gates are lifted.
    pods = await site.pods(site.name(), 2, 8, size=2, scheduler="none")
    await site.holds(16)
    for pod in pods:

        async def lifted(pod=pod):
            return not (await site.world.read(pod))["spec"].get("schedulingGates")

        await until(lifted)
    await site.told(pods, "PodGroupReleased", f"not placed all of its pods within {RESERVED} s")
    assert await site.used() == 0
    error = await site.extender.bind(pods[0], site.nodes[0])
    assert f"kube-scheduler has placed 1 of 2 pods within {HOLD} s" in error
    assert await site.placed(pods) == [None, None]
    await site.holds(0)

    async def both_bind():
        errors = await asyncio.gather(*(site.extender.bind(pod, site.nodes[0]) for pod in pods))
        # Nothing is reserved for the group for a moment, so that other pods have a turn.
        assert all(not error or "did not place enough of its pods in time" in error for error in errors)
        return errors == ["", ""]

    await until(both_bind)


async def test_group_is_released_if_pod_is_deleted_during_reservation(site):
    await site.add_nodes(1)
    pods = await site.pods(site.name(), 2, 8, size=2, scheduler="none")
    await site.holds(16)
    await site.world.delete(pods[0], seconds=0)
    await site.told(pods[1:], "PodGroupReleased", "1 of 2 pods exist")
    assert await site.used() == 0


async def test_pod_group_is_bound_despite_oversized_pod_with_same_label(site):
    await site.add_nodes(1)
    group = site.name()
    liar = await site.pod(group, 64, size=2)
    pods = await site.pods(group, 2, 8, size=2)
    await site.bound(pods)
    assert await site.placed([liar]) == [None]


async def test_conflicting_or_invalid_group_size_blocks_group(site):
    await site.add_nodes(1)
    group = site.name()
    pods = [await site.pod(group, 8, size=2), await site.pod(group, 8, size=1)]
    await site.told(pods, "PodGroupWaiting", "state different sizes")
    assert await site.placed(pods) == [None, None]
    await site.relabel(pods[1], SIZE, "two")
    await site.relabel(pods[0], SIZE, "two")
    await site.told(pods, "PodGroupWaiting", "is not a valid group size")
    assert await site.used() == 0
    for pod in pods:
        await site.relabel(pod, SIZE, "2")
    await site.bound(pods)


async def test_coscheduling_pod_group_defines_size(site):
    await site.add_nodes(1)
    group = site.name()
    kind = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup"}
    await site.world.api.post(POD_GROUPS, {**kind, "metadata": {"name": group}, "spec": {"minMember": 2}})
    pods = [await site.pod(group, 8, label=COSCHEDULING)]
    await site.told(pods, "PodGroupWaiting", "1 of 2 pods exist")
    # What a pod says does not count beside the object.
    await site.relabel(pods[0], SIZE, "1")
    pods.append(await site.pod(group, 8, label=COSCHEDULING))
    await site.bound(pods)


@pytest.mark.parametrize("gated", [True, False])
async def test_kubernetes_pod_group_defines_size(site, gated):
    try:
        await site.world.api.get(OWN_POD_GROUPS)
    except ApiError as exc:
        if not exc.not_found:
            raise
        pytest.skip("no PodGroups of Kubernetes' own: they need 1.37 and the gate GenericWorkload")
    await site.add_nodes(1)
    group = site.name()
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    kind = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup"}
    await site.world.api.post(OWN_POD_GROUPS, {**kind, "metadata": {"name": group}, "spec": spec})
    pods = [await site.pod(group, 8, own=True, gated=gated)]
    if gated:
        await site.told(pods, "PodGroupWaiting", "1 of 2 pods exist")
    assert await site.placed(pods) == [None]
    assert await site.used() == 0
    pods.append(await site.pod(group, 8, own=True, gated=gated))
    await site.bound(pods)
    # A second one finds no card, and keeps none.
    other = site.name()
    await site.world.api.post(OWN_POD_GROUPS, {**kind, "metadata": {"name": other}, "spec": spec})
    late = await site.pods(other, 2, 8, own=True, gated=gated)
    if gated:
        await site.told(late, "PodGroupWaiting", "does not fit as a whole: room for 0 of 2 pods")
    else:
        await site.told(late, "FailedScheduling", "")
    assert await site.placed(late) == [None, None]
    for pod in pods:
        await site.world.delete(pod, seconds=0)
    await site.bound(late)


async def test_extender_removes_only_its_gate_from_pod(site, account):
    await site.add_nodes(1)
    bound = f"may change only the annotation {FENCED_AT_ANNOTATION}"
    pod = await site.pod(site.name(), 8, size=9)
    path = f"{PODS}/{pod['metadata']['name']}"
    ours = {"op": "remove", "path": "/spec/schedulingGates/0"}
    changes = {
        "label": [{"op": "add", "path": "/metadata/labels/x", "value": "y"}],
        "label beside the gate": [ours, {"op": "add", "path": "/metadata/labels/x", "value": "y"}],
        "annotation": [{"op": "add", "path": "/metadata/annotations", "value": {"x": "y"}}],
        "image": [{"op": "replace", "path": "/spec/containers/0/image", "value": "other"}],
        "deadline": [{"op": "add", "path": "/spec/activeDeadlineSeconds", "value": 1}],
        "selector": [{"op": "add", "path": "/spec/nodeSelector", "value": {"x": "y"}}],
        "toleration": [{"op": "add", "path": "/spec/tolerations/-", "value": {"key": "x", "operator": "Exists"}}],
        "finalizer": [{"op": "add", "path": "/metadata/finalizers", "value": ["accelkit.io/x"]}],
    }
    async with ApiClient(load_connection(account)) as api:

        async def in_force():
            # A value that an earlier try has written would be no change, which the policy permits.
            label = [{"op": "add", "path": "/metadata/labels/x", "value": uuid.uuid4().hex}]
            return bound in await find_refusal(api.patch(path, label, kind="json"))

        await until(in_force)
        for name, change in changes.items():
            assert bound in await find_refusal(api.patch(path, change, kind="json")), name
        statuses: list[dict[str, object]] = [{"phase": "Failed"}, {"reason": "x"}, {"observedGeneration": 77}]
        statuses += [{"conditions": [{"type": "x", "status": "True"}]}, {"resize": "Proposed"}]
        for status in statuses:
            assert bound in await find_refusal(api.patch(f"{path}/status", {"status": status})), status
        assert await find_refusal(api.patch(f"{path}/status", {"status": {"nominatedNodeName": "n"}})) == ""
        assert "forbidden" in await find_refusal(api.delete(path))
        fence = {"metadata": {"annotations": {FENCED_AT_ANNOTATION: "2026-01-01T00:00:00.000000Z"}}}
        assert await find_refusal(api.patch(path, fence)) == ""
        fence["metadata"]["annotations"][FENCED_AT_ANNOTATION] = "x" * 41
        assert "must be a time" in await find_refusal(api.patch(path, fence))
        fence["metadata"]["annotations"] = {FENCED_AT_ANNOTATION: "now", "x": "y"}
        assert bound in await find_refusal(api.patch(path, fence))
        assert bound in await find_refusal(api.patch(f"{path}/status", {"metadata": {"annotations": {"x": "y"}}}))
        assert await find_refusal(api.patch(path, [ours], kind="json")) == ""
        # Without the gate it is no business of ours any more.
        assert bound in await find_refusal(api.patch(f"{path}/status", {"status": {"nominatedNodeName": "m"}}))
