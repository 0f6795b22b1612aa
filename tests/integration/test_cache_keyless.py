"""A running `accelkit cache-controller` that is given the trusted root of a private Sigstore: keyless, offline."""

from __future__ import annotations

import pytest
from cache_controller_process import Caches, cache_site, condition, digest_of
from cache_definitions import CacheKinds
from conftest import Sandbox
from private_sigstore import GITHUB, MOMENT, CertificateAuthority, PrivateSigstore

from accelkit.gkm import names
from accelkit.gkm.objects import Cache
from accelkit.kube.paths import build_object_path

pytest_plugins = ["cache_fixtures"]
pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]
IDENTITY = "https://github.com/acme/ci/.github/workflows/build.yml@refs/heads/main"
SIGSTORE = PrivateSigstore.new()


@pytest.fixture(scope="module")
def site(control_plane: Sandbox, defined: CacheKinds, tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("site")
    (folder / "trusted_root.json").write_text(SIGSTORE.trusted_root_json)
    with cache_site(control_plane, folder, "--trusted-root", str(folder / "trusted_root.json")) as site:
        yield site


@pytest.fixture
async def team(caches: Caches):
    """A team whose images one workflow may sign."""
    team = caches.unique("team")
    spec = {
        "images": [caches.images(team)],
        "signers": [{"name": "ci", "keyless": {"issuer": GITHUB, "subject": IDENTITY}}],
    }
    policy = {"apiVersion": names.POLICY_API, "kind": "SignerPolicy", "metadata": {"name": team}, "spec": spec}
    await caches.api.post(names.SIGNER_POLICIES, policy)
    yield team
    await caches.api.delete(build_object_path(names.SIGNER_POLICIES, team))


def verdict(cache: Cache) -> tuple[str, str]:
    return condition(cache, "Verified")


async def test_keyless_signature_is_verified_with_configured_trusted_root(caches: Caches, team: str):
    namespace = await caches.namespace()
    signers = {
        "ours": SIGSTORE.identity(IDENTITY),
        "anothers": SIGSTORE.identity(f"{IDENTITY}-not"),
        "foreign": PrivateSigstore.new().identity(IDENTITY),
        "pretended": SIGSTORE.identity(IDENTITY, authority=CertificateAuthority.new("private", around=MOMENT)),
    }
    images = {name: await caches.publish(f"{team}/{name}", signer=signer) for name, signer in signers.items()}
    paths = {name: await caches.create(namespace, f"{team}/{name}") for name in signers}
    cache = await caches.becomes(paths["ours"], lambda cache: verdict(cache) == ("True", "Verified"))
    assert digest_of(cache) == images["ours"].digest
    assert cache.status.verification is not None
    (signature,) = cache.status.verification.signatures
    assert (signature["identity"], signature["issuer"]) == (IDENTITY, GITHUB)
    # Somebody else who signed in there; the right name, by another Sigstore; and by another authority with its log.
    reasons = {"anothers": "IdentityMismatch", "foreign": "LogEntryInvalid", "pretended": "UntrustedRoot"}
    for name, reason in reasons.items():
        cache = await caches.becomes(paths[name], lambda cache: verdict(cache)[0] == "False")
        assert verdict(cache)[1] == reason
        assert digest_of(cache) == ""
