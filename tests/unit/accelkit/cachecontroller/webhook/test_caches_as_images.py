"""Pods of caches that come as image volumes: there is no claim that they could wait for, so they wait to be created."""

import pytest
from webhook_pods import DIGEST, FORMER, IMAGE, NAMESPACE, PINNED, change, changed, make_cache, make_pod, mount, volumes

from accelkit.cachecontroller.filling import build_image_volume
from accelkit.cachecontroller.webhook.mutation import Tools
from accelkit.gkm.conditions import ConditionType, state
from accelkit.gkm.objects import Delivery, PvcStatus
from accelkit.model.keys import CACHE_MOUNT_ANNOTATION

TOOLS = Tools(IMAGE, build_image_volume=build_image_volume)
VERIFIED = state(ConditionType.VERIFIED, "Verified", holds=True)
CLAIMED = make_pod(mount(readOnly=True))
ASKING = make_pod(claim="", annotations={CACHE_MOUNT_ANNOTATION: "kernels"})


def image_cache(*conditions, **status):
    """A cache of delivery `image` whose files were captured where pods see them."""
    told = [VERIFIED, *conditions]
    fields = {"delivery": "image", "cache_format": "vllm", "capture_path": "/cache", "conditions": told, **status}
    return make_cache(spec={"delivery": Delivery.IMAGE}, **fields)


def unresolved(*conditions, **status):
    return image_cache(resolved_digest="", pvc_status={}, conditions=list(conditions), **status)


def unready(reason, message):
    return state(ConditionType.READY, reason, message, holds=False)


WAITING = {
    "made a moment ago": (unresolved(delivery=""), "the image is not resolved yet"),
    "resolved by nobody so far": (
        unresolved(state(ConditionType.VERIFIED, "RegistryUnavailable", "no answer", holds=None)),
        "RegistryUnavailable: no answer",
    ),
    "refused before it was anybody's": (
        unresolved(
            state(ConditionType.VERIFIED, "NotCovered", "no policy", holds=False), unready("NotCovered", "no policy")
        ),
        "NotCovered: no policy",
    ),
    "captured elsewhere": (
        image_cache(unready("NotRelocatable", "captured at /build"), capture_path="/build"),
        "NotRelocatable: captured at /build",
    ),
    "a cluster without image volumes": (
        image_cache(unready("ImageVolumesUnsupported", "no gate")),
        "ImageVolumesUnsupported: no gate",
    ),
}


@pytest.mark.parametrize(("cache", "why"), WAITING.values(), ids=WAITING)
@pytest.mark.parametrize("pod", [CLAIMED, ASKING, make_pod(mount())], ids=["read-only", "annotation", "writable"])
def test_pod_that_would_never_start_is_refused_with_reason(pod, cache, why):
    done = change(pod, cache, tools=TOOLS)
    assert f"({why})" in done.refusal
    assert "create the pod again when the cache is ready, or use delivery node or namespace" in done.refusal
    assert done.patch == ()


def test_pods_get_image_of_their_digest_after_verification():
    after = changed(CLAIMED, image_cache(unready("Pending", "nodes are asked to fetch it")), tools=TOOLS)
    assert volumes(after)["files"]["image"]["reference"].endswith(f"@{DIGEST}")
    cache = image_cache(resolved_digest=FORMER, previous_digests=[DIGEST])
    after = changed(make_pod(mount(readOnly=True), claim=PINNED), cache, tools=TOOLS)
    assert volumes(after)["files"]["image"]["reference"].endswith(f"@{DIGEST}")


@pytest.mark.parametrize("delivery", ["", "node", "namespace"])
def test_pod_of_node_or_namespace_delivery_keeps_unverified_claim(delivery):
    cache = make_cache(delivery=delivery, resolved_digest="", conditions=[], pvc_status={NAMESPACE: PvcStatus()})
    after = changed(CLAIMED, cache, tools=TOOLS)
    assert volumes(after)["files"] == {"persistentVolumeClaim": {"claimName": "kernels", "readOnly": True}}
