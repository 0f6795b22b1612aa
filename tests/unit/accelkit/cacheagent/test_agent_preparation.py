"""What a failure means, what is fetched and in which order, and log-ins read one by one."""

from __future__ import annotations

import base64
import errno
import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest
from agent_worlds import MOUNT, desired
from hand_made_archives import GZIP
from registries import misbehaviour
from registries.hostile import HostileRegistry
from served_images import HELLO, image_of, put

from accelkit.cacheagent.planning.world import Attempt
from accelkit.cacheagent.preparation import Preparation, build_request, note_failure
from accelkit.cacheagent.pull_secrets import read_logins
from accelkit.errors import AccelkitError, ApiError, CacheError, RegistryError
from accelkit.kernelcache.extraction import Limits
from accelkit.kernelcache.oci.reference import parse_reference
from accelkit.kernelcache.registry import RegistryCredentials, RegistrySettings
from accelkit.kernelcache.registry.pull_secrets import PullSecretError
from accelkit.kernelcache.signatures import RejectionReason, UnverifiedError
from accelkit.kernelcache.signatures.findings import Failure
from accelkit.kernelcache.signatures.policy_objects import parse_policies

IMAGE = image_of([(gzip.compress(HELLO), GZIP)])
NONE = parse_policies(()).policies


def unverified(reason: RejectionReason) -> UnverifiedError:
    return UnverifiedError("refused", (Failure(reason, "x"),))


def caused(number: int) -> AccelkitError:
    error = CacheError("the disk is full")
    error.__cause__ = OSError(number, "x")
    return error


@pytest.mark.parametrize(
    ("error", "reason", "refused"),
    [
        (unverified(RejectionReason.NO_SIGNATURES), "NoSignatures", True),
        (unverified(RejectionReason.REGISTRY_UNAVAILABLE), "RegistryUnavailable", False),
        (unverified(RejectionReason.TRUST_ROOT_UNAVAILABLE), "TrustRootUnavailable", False),
        (RegistryError("away", retryable=True), "RegistryUnavailable", False),
        (RegistryError("it lies", retryable=False), "ExtractionFailed", False),
        (PullSecretError("no such Secret"), "PullSecretUnreadable", False),
        (CacheError("a path leads out"), "ExtractionFailed", False),
        (caused(errno.ENOSPC), "NodeFull", False),
        (caused(errno.EDQUOT), "NodeFull", False),
        (caused(errno.EIO), "ExtractionFailed", False),
        (AccelkitError("a defect"), "Retrying", False),
        (ApiError("no answer"), "Retrying", False),
    ],
)
def test_failure_is_classified_by_error(error, reason, refused):
    found = note_failure(error, None, "work", 100.0)
    assert (found.reason, found.refused, found.failures, found.retry_at) == (reason, refused, 1, 105.0)


def test_consecutive_failures_are_counted_per_work():
    former = Attempt("work", 3, "x", "y", 0.0)
    assert note_failure(CacheError("z"), former, "work", 100.0).retry_at == 140.0
    assert note_failure(CacheError("z"), former, "other work", 100.0).failures == 1


def asked(registry: HostileRegistry):
    image = put(registry, IMAGE)
    return desired(image.digest or "", image=image)


async def no_logins(_wish) -> RegistryCredentials:
    raise AssertionError("this cache names no Secret")


def preparing(registry: HostileRegistry, root: Path, logins=no_logins) -> Preparation:
    return Preparation(root, RegistrySettings(plain_http=frozenset({registry.host})), logins)


async def test_only_labels_of_image_are_downloaded(hostile_registry, tmp_path):
    known = asked(hostile_registry)
    async with preparing(hostile_registry, tmp_path) as preparation:
        image_facts = await preparation.read_image_facts(known)
    assert [str(each.arch) for each in image_facts.labels.targets] == ["gfx90a"]
    layer = json.loads(IMAGE.manifest)["layers"][0]
    assert image_facts.size_bytes == layer["size"]
    assert not hostile_registry.received("GET", f".*/blobs/{layer['digest']}")
    assert list(tmp_path.iterdir()) == []


async def test_image_without_policy_is_refused_without_request(hostile_registry, tmp_path):
    known = asked(hostile_registry)
    hostile_registry.requests.clear()
    async with preparing(hostile_registry, tmp_path) as preparation:
        with pytest.raises(UnverifiedError) as caught:
            await preparation.extract(known, NONE, None, 1 << 20)  # type: ignore[arg-type]
    assert caught.value.reason is RejectionReason.NOT_COVERED
    assert hostile_registry.requests == []


async def test_wrong_manifest_digest_is_detected_before_verification(hostile_registry, tmp_path):
    known = asked(hostile_registry)
    hostile_registry.on("GET", ".*/manifests/.*", misbehaviour.changed(b'{"schemaVersion": 2}'))
    async with preparing(hostile_registry, tmp_path) as preparation:
        with pytest.raises(RegistryError):
            await preparation.read_image_facts(known)


async def test_pull_secrets_are_used_only_for_their_cache(hostile_registry, tmp_path):
    known = asked(hostile_registry)
    hostile_registry.on("*", ".*", misbehaviour.basic_auth("user", "secret"))
    login = base64.b64encode(b"user:secret").decode()
    document = json.dumps({"auths": {hostile_registry.host: {"auth": login}}}).encode()

    async def logins(_wish):
        return RegistryCredentials.from_documents([("Secret team/login", document)])

    async with preparing(hostile_registry, tmp_path, logins) as preparation:
        await preparation.read_image_facts(replace(known, secrets=("login",)))
        with pytest.raises(RegistryError):
            await preparation.read_image_facts(known)


def test_extraction_limit_is_available_room(tmp_path):
    known = desired(image=parse_reference("q.io/a/b:v1").with_digest("sha256:" + "a" * 64))
    assert build_request(tmp_path, known, NONE, None, 5).limits.total_bytes == 5
    assert build_request(tmp_path, known, NONE).limits == Limits()
    assert (build_request(tmp_path, known, NONE).mount_path, build_request(tmp_path, known, NONE).namespace) == (
        MOUNT,
        "team",
    )
    assert build_request(tmp_path, replace(known, key="/add"), NONE).namespace is None


@pytest.mark.parametrize(("key", "place"), [("team/add", "team"), ("/add", "accelkit")])
async def test_pull_secrets_are_read_from_namespace_of_cache_up_to_limit(api, key, place):
    auths = json.dumps({"auths": {"q.io": {"auth": base64.b64encode(b"u:p").decode()}}})
    data = {".dockerconfigjson": base64.b64encode(auths.encode()).decode()}
    names = [f"s{number}" for number in range(50)]
    for name in names:
        api.store("/api/v1/secrets", {"metadata": {"name": name, "namespace": place}, "data": data})
    await read_logins(api, RegistryCredentials.from_documents([]), "accelkit")(desired(key=key, secrets=tuple(names)))
    assert [each.path for each in api.requests] == [f"/api/v1/namespaces/{place}/secrets/{name}" for name in names[:16]]
