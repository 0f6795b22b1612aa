"""What users may not write on pods: the admission policies of the role extender, on a real API server."""

import itertools
import json
import re

import pytest
from conftest import PODS
from impersonation import EXTENDER, acting_as, acting_as_agent, acting_as_kubelet, find_refusal
from support.waiting import until

from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.kube.objects import get_if_present

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
ASSIGNMENT = "accelkit.io/assignment"
FORGED = json.dumps({"version": 1, "containers": {"main": [{"card": "sim-node-1-0", "memory_bytes": 1}]}})
# Of dialects that are not in use here: they may be tomorrow.
KEYS = [ASSIGNMENT, "enflame.com/gcu-device-id", "enflame.com/assigned-containers", "gas-container-tiles", "gas-ts"]
KEYS += ["ALIYUN_COM_GPU_MEM_IDX"]
BIND = [
    {"apiGroups": [""], "resources": ["pods/binding", "bindings"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["pods/ephemeralcontainers", "pods/status"], "verbs": ["patch", "update"]},
]


_numbers = itertools.count()


@pytest.fixture
def name_of_tenant():
    """A name of its own for each test: what one may is known to the API server a while longer than it holds."""
    return f"tenant-{next(_numbers)}"


@pytest.fixture
async def tenant(installed, name_of_tenant):
    """A user who may edit the namespace default, and bind its pods."""
    role = {"apiGroup": "rbac.authorization.k8s.io"}
    subject = {**role, "kind": "User", "name": name_of_tenant}
    binds = f"{name_of_tenant}-binds"
    async with ApiClient(load_connection(installed.kubeconfig)) as api:
        await api.post(f"{RBAC}/roles", {"metadata": {"name": binds}, "rules": BIND})
        for name, kind in (("edit", "ClusterRole"), (binds, "Role")):
            reference = {**role, "kind": kind, "name": name}
            body = {"metadata": {"name": f"{name_of_tenant}-{kind}"}, "roleRef": reference, "subjects": [subject]}
            await api.post(f"{RBAC}/rolebindings", body)
        async with acting_as(installed.kubeconfig, name_of_tenant, "system:authenticated") as user:
            await may_bind(user)
            yield user
        for kind in ("ClusterRole", "Role"):
            await api.delete(f"{RBAC}/rolebindings/{name_of_tenant}-{kind}")
        await api.delete(f"{RBAC}/roles/{binds}")


async def may_bind(user):
    """Wait until the API server knows of the user's rights."""
    wanted = {"verb": "create", "resource": "pods", "subresource": "binding", "namespace": "default"}
    review = {"kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": wanted}}
    await until(
        lambda: user.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review),
        accept=lambda answer: json.loads(answer)["status"]["allowed"],
        every=0.1,
    )


def pod(name="p", *, annotations=None, limits=None, env=(), containers=1, **spec):
    """A pod of this many equal containers that nothing places."""
    each = {"image": "busybox", "env": list(env), "resources": {"limits": limits or {}}}
    return {
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {
            "schedulerName": "nobody",
            "containers": [{"name": f"c{number}", **each} for number in range(containers)],
            **spec,
        },
    }


def binding(name, annotations=None):
    target = {"apiVersion": "v1", "kind": "Node", "name": "node-1"}
    return {"metadata": {"name": name, "annotations": annotations or {}}, "target": target}


SHARE = {"accelkit.io/memory": "1"}


@pytest.mark.parametrize("key", KEYS)
async def test_tenant_cannot_set_card_annotations_of_pod(cluster, tenant, key):
    with pytest.raises(ApiError, match=f"only accelkit writes {key}; do not set or change these annotations of pods"):
        await tenant.post(PODS, pod(annotations={key: "0"}))
    await tenant.post(PODS, pod("named", annotations={"accelkit.io/request": "{}", "gas-allow": "card0"}))
    for path in (f"{PODS}/named", f"{PODS}/named/status"):
        with pytest.raises(ApiError, match="only accelkit writes"):
            await tenant.patch(path, {"metadata": {"annotations": {key: "0"}}})
    for path in (f"{PODS}/named/binding", PODS.replace("pods", "bindings")):
        with pytest.raises(ApiError, match="only accelkit writes"):
            await tenant.post(path, binding("named", {key: "0"}))
    await tenant.post(f"{PODS}/named/binding", binding("named", {"mine": "0"}))


async def test_administrator_and_kube_system_pods_cannot_set_assignment(cluster):
    system = "/api/v1/namespaces/kube-system/pods"
    for path in (PODS, system):
        with pytest.raises(ApiError, match="only accelkit writes"):
            await cluster.api.post(path, pod(annotations={ASSIGNMENT: FORGED}))


async def test_user_can_change_bound_pod_except_assignment(cluster, tenant):
    await cluster.create_pod("own", memory=2, annotations={"note": "1"})
    await cluster.running("own")
    written = (await cluster.get(f"{PODS}/own"))["metadata"]["annotations"][ASSIGNMENT]
    for forged in (FORGED, None):
        with pytest.raises(ApiError, match=f"only accelkit writes {ASSIGNMENT}"):
            await tenant.patch(f"{PODS}/own", {"metadata": {"annotations": {ASSIGNMENT: forged}}})
    # It is in the object that a client reads and writes back.
    await tenant.patch(f"{PODS}/own", {"metadata": {"labels": {"a": "b"}, "annotations": {ASSIGNMENT: written}}})
    await tenant.patch(f"{PODS}/own", {"metadata": {"annotations": {"note": "2", "gas-deny": "card1"}}})
    extra = {"spec": {"ephemeralContainers": [{"name": "debug", "image": "busybox"}]}}
    await tenant.patch(f"{PODS}/own/ephemeralcontainers", extra)
    await tenant.post(f"{PODS}/own/eviction", {"metadata": {"name": "own"}})


async def test_kubelet_agent_and_extender_write_only_their_own_fields(cluster, tenant):
    await cluster.create_pod("own", memory=2)
    await cluster.running("own")
    kubeconfig = cluster.sandbox.kubeconfig
    async with acting_as_kubelet(kubeconfig, "node-1") as kubelet:
        await kubelet.patch(f"{PODS}/own/status", {"status": {"message": "a kubelet's"}})
        with pytest.raises(ApiError, match="only accelkit writes"):
            await kubelet.patch(f"{PODS}/own/status", {"metadata": {"annotations": {ASSIGNMENT: FORGED}}})
        mirror = pod("mirror", annotations={"kubernetes.io/config.mirror": "x", ASSIGNMENT: FORGED}, nodeName="node-1")
        node = await cluster.get("/api/v1/nodes/node-1")
        owner = {"apiVersion": "v1", "kind": "Node", "controller": True, "name": "node-1"}
        mirror["metadata"]["ownerReferences"] = [{**owner, "uid": node["metadata"]["uid"]}]
        mirror["spec"]["containers"][0]["resources"] = {"limits": SHARE}
        await kubelet.post(PODS, mirror)
    # A user's pod does not become one by saying so. Two policies refuse it, and the API server names any one of them.
    with pytest.raises(ApiError, match=r"only accelkit writes|must not set spec.nodeName"):
        await tenant.post(PODS, {**mirror, "metadata": {**mirror["metadata"], "name": "no-mirror"}})
    async with acting_as_agent(kubeconfig, "node-1") as agent:
        await agent.patch(f"{PODS}/own", {"metadata": {"annotations": {ASSIGNMENT: FORGED}}})
    await tenant.post(PODS, pod("to-bind"))
    async with acting_as(kubeconfig, EXTENDER) as extender:
        await extender.post(f"{PODS}/to-bind/binding", binding("to-bind", {ASSIGNMENT: FORGED}))
    bound = await cluster.get(f"{PODS}/to-bind")
    assert bound["metadata"]["annotations"][ASSIGNMENT] == FORGED


async def test_kubelet_cannot_create_mirror_pod_labelled_as_accelkit(cluster):
    own = PODS.replace("default", "accelkit")
    node = await cluster.get("/api/v1/nodes/node-1")
    owner = {"apiVersion": "v1", "kind": "Node", "controller": True, "name": "node-1", "uid": node["metadata"]["uid"]}

    def mirror(labels):
        made = pod("mirror", annotations={"kubernetes.io/config.mirror": "x"}, nodeName="node-1")
        made["metadata"] |= {"labels": labels, "ownerReferences": [owner]}
        return made

    ours = {"app.kubernetes.io/part-of": "accelkit", "app.kubernetes.io/name": "accelkit-cache-controller"}
    async with acting_as_kubelet(cluster.sandbox.kubeconfig, "node-1") as kubelet:
        assert "a kubelet must not create pods of accelkit" in await refusal_of(kubelet, own, mirror(ours))
        assert await refusal_of(kubelet, PODS, mirror(ours)) == ""
        assert await refusal_of(kubelet, own, mirror({"app.kubernetes.io/name": "another"})) == ""
    # Who creates ours is no kubelet.
    assert await refusal_of(cluster.api, own, mirror(ours)) == ""


async def test_deployment_with_forged_template_creates_no_pods_and_gets_event(cluster, tenant):
    path = "/apis/apps/v1/namespaces/default/deployments"
    labels = {"app": "forger"}
    made = pod(annotations={ASSIGNMENT: FORGED})
    template = {"metadata": {"labels": labels, "annotations": made["metadata"]["annotations"]}, "spec": made["spec"]}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    await tenant.post(path, {"metadata": {"name": "forger"}, "spec": spec})
    try:

        async def list_told():
            events = (await cluster.get(PODS.replace("pods", "events")))["items"]
            return [each["message"] for each in events if each["reason"] == "FailedCreate"]

        await until(list_told, accept=lambda told: any("only accelkit writes" in each for each in told), every=0.2)
    finally:
        await tenant.delete(f"{path}/forger", {"propagationPolicy": "Foreground"})
        await until(lambda: get_if_present(cluster.api, f"{path}/forger"), accept=lambda found: found is None)


VISIBLE = "NVIDIA_VISIBLE_DEVICES"
FROM_FIELD = {"valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['x']"}}}


@pytest.mark.parametrize(
    "variable",
    [
        {"name": VISIBLE, "value": "all"},
        {"name": VISIBLE, **FROM_FIELD},
        {"name": "HABANA_VISIBLE_DEVICES", "value": "0"},
        {"name": VISIBLE, "value": "$(NONE)"},
        {"name": "NVIDIA_IMEX_CHANNELS", "value": "0"},
        {"name": "ASCEND_VNPU_SPECS", "value": "vir04"},
        {"name": " ASCEND_VISIBLE_DEVICES ", "value": "0"},
    ],
    ids=["all", "by a field", "another vendor's", "by another variable", "by a channel", "by a part", "by spaces"],
)
async def test_pod_with_shares_cannot_request_cards_from_container_runtime(cluster, tenant, variable):
    refusal = "a container must not request cards from the container runtime"
    with pytest.raises(ApiError, match=refusal):
        await tenant.post(PODS, pod(limits=SHARE, env=[variable]))
    sharing = pod(limits=SHARE)
    with_init = {**sharing["spec"], "initContainers": [{"name": "i", "image": "busybox", "env": [variable]}]}
    with pytest.raises(ApiError, match=refusal):
        await tenant.post(PODS, {**sharing, "spec": with_init})
    await tenant.post(PODS, sharing)
    extra = {"name": "debug", "image": "busybox", "env": [variable]}
    with pytest.raises(ApiError, match=refusal):
        await tenant.patch(f"{PODS}/p/ephemeralcontainers", {"spec": {"ephemeralContainers": [extra]}})
    # Who asks for none is left alone unless that is wanted.
    await tenant.post(PODS, pod("plain", env=[variable]))
    for number, value in enumerate(("void", "none", "")):
        await tenant.post(PODS, pod(f"harmless-{number}", limits=SHARE, env=[{"name": VISIBLE, "value": value}]))


@pytest.mark.parametrize("version", [{"value": "12.4.1"}, FROM_FIELD], ids=["a value", "by a field"])
async def test_container_without_share_must_not_set_cuda_version(cluster, tenant, version):
    variable = {"name": "CUDA_VERSION", **version}
    refusal = "CUDA_VERSION gives a container without a share all cards"

    def with_sidecar(name, *env, limits=None):
        sharing = pod(name, limits=SHARE)
        sidecar = {"name": "sidecar", "image": "busybox", "env": list(env), "resources": {"limits": limits or {}}}
        sharing["spec"]["containers"].append(sidecar)
        return sharing

    with pytest.raises(ApiError, match=refusal):
        await tenant.post(PODS, with_sidecar("p", variable))
    with pytest.raises(ApiError, match=refusal):
        await tenant.post(PODS, with_sidecar("p", variable, limits={"accelkit.io/memory": "0Gi"}))
    init = [{"name": "i", "image": "busybox", "env": [variable]}]
    with pytest.raises(ApiError, match=refusal):
        await tenant.post(PODS, pod(limits=SHARE, initContainers=init))
    # The device plugin names the cards of a container with a share.
    await tenant.post(PODS, pod(limits=SHARE, env=[variable]))
    extra = {"name": "debug", "image": "busybox", "env": [variable]}
    with pytest.raises(ApiError, match=refusal):
        await tenant.patch(f"{PODS}/p/ephemeralcontainers", {"spec": {"ephemeralContainers": [extra]}})
    await tenant.post(PODS, with_sidecar("beside", variable, {"name": VISIBLE, "value": "void"}))
    await tenant.post(PODS, with_sidecar("empty", {"name": "CUDA_VERSION", "value": ""}))
    await tenant.post(PODS, pod("plain", env=[variable]))


@pytest.mark.parametrize(
    "key",
    [
        "nvidia.cdi.k8s.io/container.c0",
        "nvidia.com/container.c0.gpus.devices",
        "cdi.k8s.io/c0",
        "devices.noderesource.dev/container.c0",
        "io.kubernetes.cri-o.Devices",
        "devices.crio.io",
        "devices.crio.io/c0",
    ],
)
async def test_pod_with_shares_cannot_request_cards_by_runtime_annotation(cluster, tenant, key):
    refusal = "a pod must not request cards from the container runtime"
    with pytest.raises(ApiError, match=refusal):
        await tenant.post(PODS, pod(limits=SHARE, annotations={key: "all"}))
    await tenant.post(PODS, pod(limits=SHARE))
    with pytest.raises(ApiError, match=refusal):
        await tenant.patch(f"{PODS}/p", {"metadata": {"annotations": {key: "all"}}})
    await tenant.post(PODS, pod("plain", annotations={key: "all"}))


AT_ONCE = {"gracePeriodSeconds": 0}
GHOST = "/api/v1/nodes/ghost"


@pytest.fixture
async def ghost(cluster):
    """A node without a kubelet: what is deleted there goes on ending."""
    await cluster.api.post("/api/v1/nodes", {"metadata": {"name": "ghost"}})
    yield cluster
    for each in (await cluster.get(PODS))["items"]:
        await cluster.api.delete(f"{PODS}/{each['metadata']['name']}", AT_ONCE)
    await cluster.api.delete(GHOST)


async def create_on_ghost(cluster, tenant, name, limits):
    await tenant.post(PODS, pod(name, limits=limits, terminationGracePeriodSeconds=3600))
    target = {"apiVersion": "v1", "kind": "Node", "name": "ghost"}
    await cluster.api.post(f"{PODS}/{name}/binding", {"metadata": {"name": name}, "target": target})


async def test_pod_with_shares_is_not_deleted_without_grace_period(ghost, tenant):
    """If it is ending, its kubelet runs it on for its grace period, and gives its devices to the next pod."""
    await create_on_ghost(ghost, tenant, "p", SHARE)
    refusal = "containers of a pod that is deleted without a grace period may continue to use their cards"
    for path in (f"{PODS}/p", PODS):
        assert refusal in await find_refusal(tenant.delete(path, AT_ONCE))
    await tenant.delete(f"{PODS}/p")
    assert refusal in await find_refusal(tenant.delete(f"{PODS}/p", AT_ONCE))
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}, "deleteOptions": AT_ONCE}
    assert refusal in await find_refusal(tenant.post(f"{PODS}/p/eviction", eviction))
    await tenant.delete(f"{PODS}/p", {"gracePeriodSeconds": 1})
    async with acting_as_kubelet(ghost.sandbox.kubeconfig, "ghost") as kubelet:
        await kubelet.delete(f"{PODS}/p", AT_ONCE)
    with pytest.raises(ApiError, match=r"set spec\.terminationGracePeriodSeconds to 1 or more"):
        await tenant.post(PODS, pod(limits=SHARE, terminationGracePeriodSeconds=0))


async def test_other_pods_and_administrators_can_skip_grace_period(ghost, tenant):
    await create_on_ghost(ghost, tenant, "plain", {"cpu": "1"})
    await tenant.delete(f"{PODS}/plain")
    await tenant.delete(f"{PODS}/plain", AT_ONCE)
    await tenant.post(PODS, pod("waits", limits=SHARE))
    await tenant.delete(f"{PODS}/waits")
    # For instance where the node is lost.
    await create_on_ghost(ghost, tenant, "lost", SHARE)
    await tenant.delete(f"{PODS}/lost")
    await ghost.api.delete(f"{PODS}/lost", AT_ONCE)


async def test_pod_with_shares_must_not_set_node_name(cluster, tenant):
    for asking in (pod(limits=SHARE, nodeName="node-1"), pod(limits={"accelkit.io/cards": "1"}, nodeName="node-1")):
        with pytest.raises(ApiError, match=r"must not set spec\.nodeName; remove it"):
            await tenant.post(PODS, asking)
    init = [{"name": "i", "image": "busybox", "resources": {"limits": SHARE}}]
    with pytest.raises(ApiError, match=r"must not set spec\.nodeName"):
        await tenant.post(PODS, pod(nodeName="node-1", initContainers=init))
    await tenant.post(PODS, pod("plain", nodeName="node-1"))


async def test_large_pod_is_evaluated_within_cel_budget(cluster, tenant):
    env = [{"name": f"VARIABLE_{number}", "value": "x" * 40} for number in range(100)]
    large = pod(limits=SHARE, env=env, containers=50, annotations=count_annotations(200))
    await tenant.post(PODS, large)
    await tenant.patch(f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}})
    await tenant.patch(f"{PODS}/p/status", {"status": {"message": "x"}})
    large["metadata"]["name"] = "q"
    large["spec"]["containers"][49]["env"].append({"name": VISIBLE, "value": "all"})
    with pytest.raises(ApiError, match="a container must not request cards"):
        await tenant.post(PODS, large)


async def test_pod_with_shares_has_at_most_256_annotations(cluster, tenant):
    refusal = "have at most 256 annotations"
    with pytest.raises(ApiError, match=refusal):
        await tenant.post(PODS, pod(limits=SHARE, annotations=count_annotations(257)))
    await tenant.post(PODS, pod(limits=SHARE))
    with pytest.raises(ApiError, match=refusal):
        await tenant.patch(f"{PODS}/p", {"metadata": {"annotations": count_annotations(257)}})
    await tenant.patch(f"{PODS}/p", {"metadata": {"annotations": count_annotations(256)}})
    await tenant.post(PODS, pod("plain", annotations=count_annotations(5000)))


FENCE = {"metadata": {"annotations": {"accelkit.io/fenced-at": "2026-01-01T00:00:00.000000Z"}}}
MOST = 180 * 1024


@pytest.mark.parametrize(
    "annotations",
    [
        {f"example.com/{each}": "x" for each in range(256)},
        {"x": "y" * (MOST - 1)},
        {"x": "\U0001f600" * (MOST // 4 - 1)},
    ],
    ids=["many", "long", "of four bytes each"],
)
async def test_annotations_of_pod_do_not_block_writes_of_extender_or_agent(cluster, tenant, annotations):
    await tenant.post(PODS, pod(limits=SHARE, annotations=annotations))
    # With one replica, as here, the role does not give it the right.
    async with acting_as(cluster.sandbox.kubeconfig, EXTENDER, "system:masters") as extender:
        await extender.patch(f"{PODS}/p", FENCE)
        written = json.dumps({"version": 1, "containers": {"main": []}, "note": "x" * (60 * 1024)})
        await extender.post(f"{PODS}/p/binding", binding("p", {ASSIGNMENT: written}))
    async with acting_as_agent(cluster.sandbox.kubeconfig, "node-1") as agent:
        await agent.patch(f"{PODS}/p", {"metadata": {"annotations": {ASSIGNMENT: FORGED}}})


@pytest.mark.parametrize("value", ["y" * MOST, "\U0001f600" * (MOST // 4)], ids=["long", "of four bytes each"])
async def test_annotations_of_a_pod_with_shares_leave_room_for_the_assignment(cluster, tenant, value):
    refusal = "the annotations of a pod that requests shares of cards can have at most 180 KiB together"
    with pytest.raises(ApiError, match=refusal):
        await tenant.post(PODS, pod(limits=SHARE, annotations={"x": value}))
    await tenant.post(PODS, pod(limits=SHARE))
    with pytest.raises(ApiError, match=refusal):
        await tenant.patch(f"{PODS}/p", {"metadata": {"annotations": {"x": value}}})
    await tenant.post(PODS, pod("plain", annotations={"x": value}))


def count_annotations(number):
    return {f"example.com/{each}": "x" for each in range(number)}


async def test_api_server_type_checks_policy_expressions_without_warning(cluster):
    for name in (f"accelkit-extender-{part}" for part in ("assignments", "cards", "endings", "mirrors")):

        async def checked(name=name):
            status = (await cluster.get(f"{POLICIES}/{name}")).get("status", {})
            return status if "typeChecking" in status else {}

        # A controller checks the types, a while after the policy was made.
        assert (await until(checked))["typeChecking"] == {}


@pytest.mark.extended
async def test_inventory_settings_change_guarded_pods_and_allowed_writers(cluster, tenant, name_of_tenant, installed):
    given = {
        "accelkit_guard_all_pods": True,
        "accelkit_guard_exempt_namespaces": ["kube-system"],
        "extender_assignment_writers": [name_of_tenant],
    }
    await cluster.api.delete(f"{POLICIES.replace('policies', 'policybindings')}/accelkit-extender-cards")
    # A binding that is left alone binds nothing.
    await cluster.api.delete(f"{POLICIES}/accelkit-extender-assignments")
    await cluster.api.delete(f"{POLICIES}/accelkit-node-agent")
    told = " ".join(installed.playbook("playbooks/verify.yml", check=False).stdout.split())
    absent = {frozenset(names.split(", ")) for names in re.findall(r"the admission policy (.+?) is not in force", told)}
    assert absent == {
        frozenset({"accelkit-node-agent"}),
        frozenset({"accelkit-extender-assignments", "accelkit-extender-cards"}),
    }
    plain = pod(env=[{"name": VISIBLE, "value": "all"}])
    installed.playbook("site.yml", "--tags", "device_plugin,extender", "-e", json.dumps(given))
    try:
        # Some moments pass until the API server goes by a policy that was changed.
        said = "a container must not request cards"
        await until(lambda: refusal_of(tenant, PODS, plain), accept=lambda refusal: said in refusal, every=0.2)
        for namespace in ("kube-system", "accelkit"):
            assert await refusal_of(cluster.api, PODS.replace("default", namespace), plain) == ""
        assert await refusal_of(tenant, PODS, pod(nodeName="node-1")) == ""
        assert (
            await refusal_of(tenant, PODS, pod(annotations={"gas-ts": "1", "enflame.com/gcu-assigned": "true"})) == ""
        )
        assert "only accelkit writes gas-ts" in await refusal_of(cluster.api, PODS, pod(annotations={"gas-ts": "1"}))
    finally:
        installed.playbook("site.yml", "--tags", "extender")
        await until(lambda: refusal_of(tenant, PODS, plain), accept=lambda found: not found)


async def refusal_of(api, path, body):
    """What the API server says against an object, empty where it would take it."""
    return await find_refusal(api.post(path, body, query={"dryRun": "All"}))
