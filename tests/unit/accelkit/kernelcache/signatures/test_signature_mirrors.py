"""Signatures are looked for at a registry and at its mirrors; neither hides what the other has."""

import pytest
from private_sigstore import bundle_referrer, bundle_v3, fallback_index, fallback_tag
from registries import misbehaviour
from signing_stand import FORMATS, IDENTITY, IMAGE, REPOSITORY, SIGNER, SIGSTORE, signing_stand

REFERRERS = f"/v2/{REPOSITORY}/referrers/.*"
ELSE = SIGSTORE.identity(IDENTITY.replace("main", "fork"))


@pytest.mark.parametrize("form", FORMATS)
async def test_signatures_of_mirror_are_used_if_registry_fails(stand, tmp_path, form):
    other = tmp_path / "mirror"
    other.mkdir()
    with signing_stand(other) as mirror:
        mirror.attach(form, SIGNER)
        stand.mirrors, stand.plain_http = (mirror.registry.host,), {stand.registry.host, mirror.registry.host}
        stand.registry.on("GET", ".*", misbehaviour.failing(503))
        assert (await stand.verify()).signatures[0].format == form


@pytest.mark.parametrize("form", FORMATS)
async def test_outdated_mirror_does_not_hide_signatures_of_registry(stand, tmp_path, form):
    other = tmp_path / "mirror"
    other.mkdir()
    with signing_stand(other) as mirror:
        mirror.attach(form, ELSE)
        stand.attach(form, SIGNER)
        stand.mirrors, stand.plain_http = (mirror.registry.host,), {stand.registry.host, mirror.registry.host}
        assert (await stand.verify()).signatures[0].format == form


async def test_failing_referrers_api_does_not_hide_fallback_tag(stand):
    referrer = stand.push(bundle_referrer(bundle_v3(SIGNER, IMAGE.digest), IMAGE))
    stand.push(fallback_index([referrer]), tag=fallback_tag(IMAGE.digest))
    stand.registry.on("GET", REFERRERS, misbehaviour.failing(500))
    assert (await stand.verify()).signatures[0].format == "cosign-v3"
