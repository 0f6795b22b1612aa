"""What a cache's status asks of a node, however it was written."""

from __future__ import annotations

import pytest
from agent_worlds import MOUNT, A

from accelkit.cacheagent.planning.desired_caches import is_delivered_here, read_desired_cache
from accelkit.errors import CacheError
from accelkit.gkm.conditions import Condition, Reason
from accelkit.gkm.objects import Cache, CacheMeta, CacheSpec, CacheStatus, SecretName


def cache(verified: str = "True", reason: str = "Verified", **status) -> Cache:
    conditions = [Condition("Verified", verified, reason, "says the controller")] if verified else []
    given = {"resolved_digest": A, "mount_path": MOUNT, "delivery": "node", "conditions": conditions, **status}
    spec = CacheSpec(image="q.io/team/add:v1", image_pull_secrets=(SecretName("login"), SecretName("")))
    return Cache(CacheMeta(name="add", namespace="team"), spec, CacheStatus(**given))


@pytest.mark.parametrize(
    ("verified", "reason", "holds", "refused"),
    [
        ("True", "Verified", True, ""),
        ("False", "NoSignatures", False, "NoSignatures"),
        ("False", "NotCovered", False, "NotCovered"),
        # Nobody could ask: that refuses nothing.
        ("False", Reason.REGISTRY_UNAVAILABLE, None, ""),
        ("False", Reason.RETRYING, None, ""),
        ("Unknown", Reason.PENDING, None, ""),
        ("true", "Verified", None, ""),
        ("", "", None, ""),
    ],
)
def test_verdict_of_controller_is_read_from_condition(verified, reason, holds, refused):
    desired = read_desired_cache(cache(verified, str(reason)))
    assert desired.verified is holds
    assert (desired.refusal.reason if desired.refusal else "") == refused


def test_desired_digest_is_resolved_digest_of_status():
    desired = read_desired_cache(cache(resolved_image="q.io/team/add:v0", cache_bytes=-5))
    assert str(desired.image).endswith(f"@{A}")
    assert (desired.digest, desired.secrets, desired.cache_bytes) == (A, ("login",), 0)
    assert (desired.namespace, desired.name, desired.namespaces) == ("team", "add", ("team",))
    desired = read_desired_cache(cache(resolved_digest=""))
    assert (desired.image, desired.digest, desired.folder) == (None, "", "")


def test_image_not_named_by_spec_counts_as_undecided():
    named = cache().spec.image
    assert read_desired_cache(cache(resolved_image=named)).verified is True
    for other in ("q.io/other/add:v1", f"{named}-2", named.replace("team", "other")):
        desired = read_desired_cache(cache(resolved_image=other))
        assert (desired.verified, desired.refusal) == (None, None)


@pytest.mark.parametrize(
    "status",
    [
        {"resolved_digest": "sha256:../../etc"},
        {"resolved_digest": A.upper()},
        {"mount_path": "/a/../b"},
        {"mount_path": "/a//b"},
        {"resolved_image": "no image at all"},
    ],
)
def test_invalid_status_is_rejected(status):
    with pytest.raises(CacheError):
        read_desired_cache(cache(**status))


@pytest.mark.parametrize(("delivery", "here"), [("node", True), ("namespace", False), ("image", False), ("", False)])
def test_only_node_delivery_stores_files_on_node(delivery, here):
    assert is_delivered_here(cache(delivery=delivery)) is here
