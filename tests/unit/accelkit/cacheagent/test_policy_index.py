"""How the cluster's policies stand to each image, and for how long a verdict counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from agent_worlds import A, desired
from private_sigstore import PrivateSigstore

from accelkit.cacheagent.planning.world import ImagePolicies
from accelkit.cacheagent.policy_index import PolicyIndex
from accelkit.kernelcache.oci.reference import parse_reference

KEY = PrivateSigstore.new().key().key.public_pem.decode()
DAY = 86400


def spec(*images: str, **more: Any) -> dict[str, Any]:
    signer = {"name": "ci", "key": {"data": KEY}, "transparencyLog": "notRequired"}
    return {"images": list(images or ("q.io/**",)), "signers": [signer], **more}


def stand(policies: dict[str, object], known=None) -> ImagePolicies:
    image_policies = PolicyIndex(Path("/store"))
    image_policies.take(policies)
    asked = known or desired()
    return image_policies.find_image_policies([asked])[asked.key]


@pytest.mark.parametrize(
    ("policies", "refused", "undecided"),
    [
        ({}, "NotCovered", ""),
        ({"p": spec()}, "", ""),
        ({"p": spec("other.io/**")}, "NotCovered", ""),
        ({"p": spec(namespaces=["other"])}, "NotCovered", ""),
        ({"p": spec(namespaces=["te*"])}, "", ""),
        ({"p": spec(signers=[])}, "", "PolicyUnreadable"),
        ({"p": spec(), "broken": {"images": 5}}, "", "PolicyUnreadable"),
        ({"p": spec(), "broken": None}, "", "PolicyUnreadable"),
        # What is wrong elsewhere refuses nothing here.
        ({"p": spec(), "broken": {"images": ["other.io/**"], "signers": 1}}, "", ""),
    ],
)
def test_policies_cover_image_by_pattern_and_namespace(policies, refused, undecided):
    found = stand(policies)
    assert (found.refusal.reason if found.refusal else "") == refused
    assert (found.undecided.reason if found.undecided else "") == undecided


@pytest.mark.parametrize(
    ("policies", "seconds"),
    [
        ({"p": spec()}, DAY),
        ({"p": spec(verdictTtlSeconds=60)}, 60),
        ({"p": spec(verdictTtlSeconds=0)}, 0),
        ({"p": spec(verdictTtlSeconds=60), "q": spec()}, 60),
        ({"p": spec(), "q": spec("other.io/**", verdictTtlSeconds=60)}, DAY),
        ({"p": spec(), "q": spec(verdictTtlSeconds=60, namespaces=["other"])}, DAY),
    ],
)
def test_verdict_is_valid_for_shortest_time_of_covering_policies(policies, seconds):
    assert stand(policies).verdict_seconds == seconds


def test_image_is_verified_again_only_if_covering_policies_change():
    first = stand({"p": spec()}).policies
    assert first == stand({"p": spec(), "q": spec("other.io/**")}).policies
    assert first != stand({"p": spec(), "q": spec("q.io/team/*")}).policies
    assert first != stand({"p": spec(verdictTtlSeconds=60)}).policies
    assert first != stand({"p": spec()}, desired(key="other/add")).policies
    other = desired(image=parse_reference("q.io/team/other:v1").with_digest(A))
    assert first != stand({"p": spec()}, other).policies


def test_policies_apply_immediately_to_digests_and_all_namespaces():
    known = desired(key="/add", namespaces=("team",))
    assert stand({"p": spec(namespaces=["team"])}, known).refusal is not None
    assert stand({"p": spec()}, known).refusal is None
    assert PolicyIndex(Path("/store")).find_image_policies([desired(image=None, folder="")]) == {}
    image_policies = PolicyIndex(Path("/store"))
    image_policies.take({"p": spec()})
    assert image_policies.narrow(desired()).policies
    image_policies.take({})
    assert not image_policies.narrow(desired()).policies
