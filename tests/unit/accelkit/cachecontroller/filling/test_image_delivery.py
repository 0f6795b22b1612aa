"""Delivery `image`: by digest, fetched before it is needed, and only where nothing has to be rewritten."""

import subprocess

import msgspec
import pytest
from pretended_cluster import FIRST, OURS, SECOND, SETTINGS, Cluster, cache_of

from accelkit.cachecontroller.cluster_view import ClaimPod, Refusal
from accelkit.cachecontroller.filling import ImageDelivery, build_image_volume
from accelkit.cachecontroller.filling.objects import DAEMON_SETS
from accelkit.gkm.conditions import ConditionType, Reason, find_condition, state
from accelkit.kernelcache.formats import ImageLabels
from accelkit.kernelcache.formats.mounts import is_relocatable

IMAGE = f"quay.io/acme/cache@{FIRST}"


def image_cache(digest=FIRST, *, cache_format="vllm", capture="/cache", relocatable=None, **spec):
    cache = cache_of(digest, delivery="image", **spec)
    status = msgspec.structs.replace(
        cache.status, cache_format=cache_format, capture_path=capture, relocatable=relocatable
    )
    return msgspec.structs.replace(cache, status=status)


def one_pass(cluster, cache):
    plan = ImageDelivery(SETTINGS).plan(cache, cluster)
    cluster.carry_out(plan)
    return plan


def ready_of(plan):
    return find_condition(plan.states["team"].conditions, ConditionType.READY)


def fetched(cluster, ready=2, wanted=3):
    for each in cluster.all(DAEMON_SETS, OURS).values():
        each["status"] = {"numberReady": ready, "desiredNumberScheduled": wanted}


def body_of(cluster):
    """The DaemonSet that fetches an image."""
    (body,) = cluster.all(DAEMON_SETS, OURS).values()
    return body


@pytest.fixture
def cluster():
    """A cluster whose nodes are asked to fetch an image."""
    cluster = Cluster()
    one_pass(cluster, image_cache())
    return cluster


def test_image_cache_is_ready_after_first_node_pulled_image():
    cluster = Cluster()
    assert ready_of(one_pass(cluster, image_cache())).reason == "Pending"
    plan = one_pass(cluster, image_cache())
    assert ready_of(plan).reason == "Extracting"
    fetched(cluster)
    plan = one_pass(cluster, image_cache())
    assert (ready_of(plan).status, ready_of(plan).message) == ("True", "nodes that have pulled the image: 2 of 3")


def test_prefetch_pod_mounts_image_by_digest_without_privileges(cluster):
    body = body_of(cluster)
    pod = body["spec"]["template"]["spec"]
    assert pod["volumes"] == [{"name": "kernel-cache", "image": {"reference": IMAGE, "pullPolicy": "IfNotPresent"}}]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_new_digest_replaces_image_of_prefetch_daemon_set(cluster):
    one_pass(cluster, image_cache(SECOND))
    body = body_of(cluster)
    assert SECOND in body["spec"]["template"]["spec"]["volumes"][0]["image"]["reference"]


def test_outdated_condition_names_pods_with_former_digest():
    cluster = Cluster()
    cluster.pods.append(ClaimPod("team", "old", images=frozenset({IMAGE})))
    plan = one_pass(cluster, image_cache(SECOND))
    outdated = find_condition(plan.states["team"].conditions, ConditionType.OUTDATED)
    assert outdated.status == "True"
    assert "old" in outdated.message


@pytest.mark.parametrize(
    ("facts", "accepted"),
    [
        ({"capture": "/cache"}, True),
        ({"capture": "/elsewhere"}, False),
        ({"capture": ""}, False),
        ({"capture": "/elsewhere", "relocatable": True}, True),
        ({"capture": "/elsewhere", "relocatable": False}, False),
        ({"cache_format": "triton", "capture": ""}, False),
        ({"cache_format": "", "capture": "/cache"}, False),
        ({"cache_format": "../..", "capture": "/cache"}, False),
    ],
)
def test_image_delivery_requires_relocatable_cache(facts, accepted):
    cluster = Cluster()
    plan = one_pass(cluster, image_cache(**facts))
    assert bool(cluster.all(DAEMON_SETS)) is accepted
    assert (ready_of(plan).reason == "NotRelocatable") is not accepted


@pytest.mark.parametrize(
    ("cache_format", "formats", "relocatable"),
    [
        ("vllm", ("aot_compile",), True),
        ("vllm", ("aot_compile", "binary"), False),
        ("vllm", ("triton",), False),
        ("vllm", (), False),
        ("triton", (), False),
        ("habana", (), True),
        ("novel", (), False),
    ],
)
def test_relocatable_depends_on_cache_formats(cache_format, formats, relocatable):
    assert is_relocatable(ImageLabels(format=cache_format, cache_formats=formats)) is relocatable


def test_image_delivery_reports_refusal_of_api_server():
    cluster = Cluster()
    ((made, _),) = ImageDelivery(SETTINGS).plan(image_cache(), cluster).create
    cluster.refusals[made] = Refusal("Forbidden", "no DaemonSets here")
    plan = one_pass(cluster, image_cache())
    assert (ready_of(plan).reason, ready_of(plan).message) == ("Forbidden", "no DaemonSets here")
    assert not plan.create
    assert plan.wake_after


def test_dropped_image_volumes_are_reported_and_retried_later(cluster):
    body = body_of(cluster)
    body["spec"]["template"]["spec"]["volumes"] = []
    body["metadata"]["creationTimestamp"] = "1970-01-12T13:46:40Z"
    fetched(cluster)
    plan = one_pass(cluster, image_cache())
    assert ready_of(plan).reason == "ImageVolumesUnsupported"
    assert "1.35" in ready_of(plan).message
    assert not plan.delete
    cluster.now += 601
    assert one_pass(cluster, image_cache()).delete
    assert one_pass(cluster, image_cache()).create


def test_nodes_with_runtime_without_sub_path_support_are_reported(cluster):
    body = body_of(cluster)
    container = body["spec"]["template"]["spec"]["containers"][0]
    assert container["volumeMounts"][0]["subPath"] == "io.vllm.cache"
    fetched(cluster, ready=1, wanted=2)
    observed = {"namespace": OURS, "images": frozenset({IMAGE})}
    cluster.pods = [ClaimPod(name="p", node="n1", **observed), ClaimPod(name="q", node="n2", **observed)]
    assert ready_of(one_pass(cluster, image_cache())).status == "True"
    cluster.pods[1] = ClaimPod(name="q", node="n2", exit_codes=frozenset({78}), **observed)
    plan = one_pass(cluster, image_cache())
    assert ready_of(plan).reason == "ImageVolumesUnsupported"
    assert "the container runtime of n2 does not support subPath" in ready_of(plan).message
    # Its node may get another runtime.
    assert plan.wake_after <= 10
    cluster.pods[1] = ClaimPod(name="q", node="n2", exit_codes=frozenset({137}), **observed)
    assert ready_of(one_pass(cluster, image_cache())).status == "True"


@pytest.mark.parametrize(("nested", "code"), [(True, 78), (False, 0)])
def test_prefetch_container_fails_if_sub_path_was_ignored(cluster, tmp_path, nested, code):
    body = body_of(cluster)
    *shell, script, observed = body["spec"]["template"]["spec"]["containers"][0]["command"]
    assert observed == "/volume/io.vllm.cache"
    folder = tmp_path / "io.vllm.cache"
    if nested:
        folder.mkdir()
    done = subprocess.run([*shell, script.replace("sleep infinity", "true"), folder], timeout=60, check=False)
    assert done.returncode == code


def test_pods_mount_sub_path_of_image_if_image_volumes_are_supported():
    source, folder = build_image_volume(image_cache(cache_format="vllm"), FIRST)
    assert source == {"image": {"reference": IMAGE, "pullPolicy": "IfNotPresent"}}
    assert folder == "io.vllm.cache"
    cache = image_cache()
    dropped = state(ConditionType.READY, Reason.IMAGE_VOLUMES_UNSUPPORTED, "", holds=False)
    status = msgspec.structs.replace(cache.status, conditions=[dropped])
    assert build_image_volume(msgspec.structs.replace(cache, status=status), FIRST) is None


@pytest.mark.parametrize(("facts", "digest"), [({"capture": "/elsewhere"}, FIRST), ({}, "")])
def test_image_volume_is_not_built_for_cache_that_needs_rewriting(facts, digest):
    assert build_image_volume(image_cache(**facts), digest) is None


def test_prefetch_daemon_set_follows_changed_pod_template(cluster):
    one_pass(cluster, image_cache(podTemplate={"spec": {"nodeSelector": {"zone": "a"}}}))
    body = body_of(cluster)
    assert body["spec"]["template"]["spec"]["nodeSelector"] == {"zone": "a"}
    one_pass(cluster, image_cache())
    assert "nodeSelector" not in body["spec"]["template"]["spec"]
    assert not one_pass(cluster, image_cache()).patch


def test_prefetch_daemon_set_is_deleted_with_cache_or_if_not_relocatable(cluster):
    cluster.carry_out(ImageDelivery(SETTINGS).plan_removal(image_cache(), cluster))
    assert not cluster.all(DAEMON_SETS)
    one_pass(cluster, image_cache())
    plan = one_pass(cluster, image_cache(capture="/elsewhere"))
    assert ready_of(plan).reason == "NotRelocatable"
    assert not cluster.all(DAEMON_SETS)


def test_pull_secrets_are_copied_for_prefetch_daemon_set():
    cluster = Cluster()
    cache = image_cache(imagePullSecrets=[{"name": "login"}])
    one_pass(cluster, cache)
    (copied,) = one_pass(cluster, cache).copies
    body = body_of(cluster)
    assert copied.source == ("team", "login")
    assert copied.target[0] == OURS
    assert body["spec"]["template"]["spec"]["imagePullSecrets"] == [{"name": copied.target[1]}]
    assert copied.owner_uid == body["metadata"]["uid"]
