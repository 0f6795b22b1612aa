"""Signatures are looked for at a registry and at its mirrors; neither hides what the other has."""

from __future__ import annotations

import pytest
from registries import misbehaviour
from signing_stand import IDENTITY, SIGNER, SIGSTORE, signing_stand

ELSE = SIGSTORE.identity(IDENTITY.replace("main", "fork"))


@pytest.fixture
def mirror(stand, tmp_path):
    folder = tmp_path / "mirror"
    folder.mkdir()
    with signing_stand(folder) as mirror:
        stand.mirrors, stand.plain_http = (mirror.registry.host,), {stand.registry.host, mirror.registry.host}
        yield mirror


async def test_behind_a_gap_the_signatures_of_a_mirror_count(stand, mirror, form):
    mirror.attach(form, SIGNER)
    stand.registry.on("GET", ".*", misbehaviour.failing(503))
    assert (await stand.verify()).signatures[0].format == form


async def test_a_mirror_that_is_behind_hides_no_signature_of_the_registry(stand, mirror, form):
    mirror.attach(form, ELSE)
    stand.attach(form, SIGNER)
    assert (await stand.verify()).signatures[0].format == form
