"""Signer policies: which images and namespaces they cover, who may sign, and what is no policy."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from private_sigstore import Key, pem
from signing_stand import IDENTITY, SIGNER, SIGSTORE, by_key, keyless, policy, policy_file

from accelkit.errors import ConfigurationError
from accelkit.kernelcache.oci.reference import parse_reference
from accelkit.kernelcache.signatures import RejectionReason, load_policies
from accelkit.kernelcache.signatures.text_patterns import MAX_PATTERN_LENGTH

DIGEST = "@sha256:" + "0" * 64
DOCUMENTATION = Path(__file__).parents[5] / "docs" / "how-to" / "signer-policies.md"


def covers(folder, image, *patterns, namespace="", **spec) -> bool:
    policies = load_policies(policy_file(folder, policy(keyless(), images=patterns, **spec)))
    return bool(policies.select(parse_reference(image), namespace))


@pytest.mark.parametrize(
    ("pattern", "image", "covered"),
    [
        ("quay.io/acme/app", "quay.io/acme/app:v1", True),
        ("quay.io/acme/app", "quay.io/acme/app2", False),
        ("quay.io/acme/app", "quay.io.evil.test/acme/app", False),
        ("quay.io/acme/*", "quay.io/acme/app" + DIGEST, True),
        ("quay.io/acme/*", "quay.io/acme/a/b", False),
        ("quay.io/acme/**", "quay.io/acme/a/b", True),
        ("quay.io/acme/**", "quay.io/acme-evil/a", False),
        ("quay.io/acme/app-*", "quay.io/acme/app-gpu", True),
        ("quay.io/**", "docker.io/acme/app", False),
        ("**", "localhost:5000/app", True),
        ("*.acme.test/**", "eu.acme.test/app", True),
        ("*.acme.test/**", "evil.test/acme.test/app", False),
        ("QUAY.io/acme/*", "quay.io/acme/app", True),
        ("docker.io/nginx", "nginx", True),
        ("docker.io/nginx", "docker.io/library/nginx:latest", True),
        ("docker.io/*", "index.docker.io/nginx", True),
        ("docker.io/*", "acme/app", False),
        ("index.docker.io/acme/*", "acme/app", True),
        ("docker.io/**", "acme/app", True),
        ("registry.test:5000/app.x", "registry.test:5000/appyx", False),
    ],
)
def test_image_pattern_matches_path_components(tmp_path, pattern, image, covered):
    assert covers(tmp_path, image, pattern) == covered


@pytest.mark.parametrize(
    ("namespaces", "namespace", "covered"),
    [
        (None, "prod", True),
        (None, "", True),
        (["prod"], "prod", True),
        (["prod"], "production", False),
        (["prod"], "", False),
        (["team-*", "prod"], "team-a", True),
        (["team-*"], "", False),
        (["prod", "*"], "", True),
        (["**"], "", True),
    ],
)
def test_policy_covers_only_matching_namespaces(tmp_path, namespaces, namespace, covered):
    spec = {} if namespaces is None else {"namespaces": namespaces}
    assert covers(tmp_path, "quay.io/acme/app", "**", namespace=namespace, **spec) == covered


@pytest.mark.parametrize(
    "pattern",
    [
        "*",
        "nginx",
        "quay.io",
        "quay.io/",
        "quay.io/acme/",
        "quay.io/acme/app:v1",
        f"quay.io/acme/app{DIGEST}",
        "quay.io/Acme/*",
        "",
    ],
)
def test_image_pattern_that_matches_no_image_is_rejected(tmp_path, pattern):
    with pytest.raises(ConfigurationError, match="signer policy acme"):
        covers(tmp_path, "quay.io/acme/app", pattern)


@pytest.mark.parametrize("length", [0, 1025])
@pytest.mark.parametrize("field", ["images", "namespaces"])
def test_pattern_of_invalid_length_is_rejected(tmp_path, field, length):
    name = ("quay.io/" + "a" * MAX_PATTERN_LENGTH)[:length]
    with pytest.raises(ConfigurationError, match="a pattern that is empty or longer than 1024 characters"):
        load_policies(policy_file(tmp_path, policy(keyless(), **{field: [name]})))


def test_pattern_of_1024_characters_is_accepted(tmp_path):
    longest = ("quay.io/" + "a" * MAX_PATTERN_LENGTH)[:MAX_PATTERN_LENGTH]
    text = policy(keyless(), images=[longest], namespaces=[longest])
    (read,) = load_policies(policy_file(tmp_path, text)).policies
    assert read.images == (longest,)


def test_pattern_with_many_wildcards_matches_in_linear_time(tmp_path):
    assert not covers(tmp_path, "quay.io/" + "a" * 240, "quay.io/" + "*a" * 100 + "b")


async def test_one_matching_signer_of_policy_is_sufficient(stand):
    stand.attach("cosign-v3", SIGNER)
    others = [by_key(SIGSTORE.key()), keyless(subject="other@acme.test"), {**keyless(), "name": "this one"}]
    assert (await stand.verify(policy(*others))).signatures[0].signer == "this one"


async def test_every_policy_that_covers_image_must_be_satisfied(stand):
    key = SIGSTORE.key()
    both = [policy(keyless(), name="ci"), policy(by_key(key), name="release")]
    stand.attach("cosign-v3", SIGNER)
    refusal = await stand.refusal(*both)
    assert refusal.reason == RejectionReason.OTHER_KIND
    assert "policy release" in refusal.message
    stand.attach("cosign-v2", key, tlog=False)
    signatures = (await stand.verify(*both)).signatures
    assert [(each.policy, each.identity.partition(":")[0]) for each in signatures] == [
        ("ci", "https"),
        ("release", "sha256"),
    ]


async def test_policy_of_another_namespace_is_ignored(stand):
    stand.attach("cosign-v3", SIGNER)
    documents = [policy(keyless()), policy(by_key(SIGSTORE.key()), name="strict", namespaces=["prod"])]
    assert (await stand.verify(*documents, namespace="dev")).signatures
    assert await stand.reason(*documents, namespace="prod") == RejectionReason.OTHER_KIND
    assert await stand.reason(documents[1], namespace="dev") == RejectionReason.NOT_COVERED


async def test_subject_pattern_is_anchored_at_both_ends(stand):
    stand.attach("cosign-v3", SIGNER)
    assert (
        await stand.reason(policy(keyless(subjectPattern="https://github.com/acme/")))
        == RejectionReason.IDENTITY_MISMATCH
    )
    assert (await stand.verify(policy(keyless(subjectPattern="https://github.com/acme/.*@refs/heads/main")))).signatures


async def test_catastrophic_subject_pattern_terminates(stand):
    stand.attach("cosign-v3", SIGSTORE.identity("https://github.com/" + "a" * 2000 + "!"))
    assert (
        await stand.reason(policy(keyless(subjectPattern="https://github.com/(a+)+$")))
        == RejectionReason.IDENTITY_MISMATCH
    )


@pytest.mark.parametrize("pattern", [".*", "^.*$", "(?s).*", "[^ ]*", "https://.*|.*@.*"])
@pytest.mark.parametrize("field", ["subjectPattern", "issuerPattern"])
def test_pattern_that_matches_any_identity_is_rejected(tmp_path, field, pattern):
    names = {"issuer": "https://idp.test", "subject": "ci@acme.test", field: pattern}
    del names[field.removesuffix("Pattern")]
    with pytest.raises(ConfigurationError, match="any identity"):
        load_policies(policy_file(tmp_path, policy({"keyless": names})))


PEM = SIGSTORE.key().key.public_pem.decode()


@pytest.mark.parametrize(
    "signer",
    [
        {},
        {"name": "nobody"},
        {"keyless": {"issuer": "https://idp.test"}},
        {"keyless": {"subject": IDENTITY}},
        {"keyless": {"issuer": "a", "issuerPattern": "a", "subject": "b"}},
        {"keyless": {"issuer": "a", "subjectPattern": "("}},
        {"keyless": {"issuer": "a", "subjectPattern": "x" * 2000}},
        {"keyless": {"issuer": "a", "subject": "b", "data": PEM}},
        {"keyless": {"issuer": "a", "subject": "b", "Subject": "c"}},
        {"key": {"data": PEM}, "ca": {"data": PEM}},
        {"key": {"data": PEM, "subject": "b"}},
        {"key": {"data": PEM, "file": "cosign.pub"}},
        {"key": {}},
        {"key": {"file": "absent.pub"}},
        {"key": {"data": "no key"}},
        {"key": {"data": PEM + PEM.replace("M", "N")}},
        {"key": {"data": SIGSTORE.key().key.private_pem.decode()}},
        {"ca": {"data": PEM}},
        {"ca": {"data": "no certificate"}},
        {"key": {"data": PEM}, "transparencyLog": "optional"},
        {"key": {"data": PEM}, "annotations": {"a": 1}},
    ],
)
def test_invalid_signer_is_rejected(tmp_path, signer):
    with pytest.raises(ConfigurationError):
        load_policies(policy_file(tmp_path, policy(signer)))


@pytest.mark.parametrize(
    "key",
    [rsa.generate_private_key(public_exponent=65537, key_size=1024), ec.generate_private_key(ec.SECP256K1())],  # noqa: S505 - the weakness is the point
    ids=["RSA of 1024 bits", "a curve of coins"],
)
def test_weak_or_unsupported_key_is_rejected(tmp_path, key):
    with pytest.raises(ConfigurationError):
        load_policies(policy_file(tmp_path, policy({"key": {"data": Key(key).public_pem.decode()}})))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "---\n---\n",
        "[]",
        "key: [",
        "\x00",
        policy(keyless()).replace("v1alpha1", "v9"),
        policy(keyless()).replace("SignerPolicy", "ClusterPolicy"),
        policy(),
        policy(keyless(), images=[]),
        policy(keyless(), namespaces=[]),
        policy(keyless(), signer=[]),
        "apiVersion: accelkit.io/v1alpha1\napiVersion: accelkit.io/v1alpha1\n",
        "#" * (2 << 20),
    ],
)
def test_invalid_policy_file_is_rejected(tmp_path, text):
    with pytest.raises(ConfigurationError):
        load_policies(policy_file(tmp_path, text))


def test_documented_policy_example_is_valid(tmp_path):
    (example,) = re.findall(r"```yaml\n(.*?)```", DOCUMENTATION.read_text(), re.DOTALL)
    (tmp_path / "release.pub").write_text(PEM)
    (tmp_path / "ca.pem").write_text(pem(*SIGSTORE.authority.chain))
    (read,) = load_policies(policy_file(tmp_path, example)).policies
    assert [each.name for each in read.signers] == ["ci", "release", "corporate"]
    assert [each.log_required for each in read.signers] == [True, False, True]


def test_every_rejection_reason_is_documented():
    text = DOCUMENTATION.read_text()
    assert {each for each in RejectionReason if f"| `{each}` |" not in text} == set()


def test_missing_trusted_root_is_reported_at_load(tmp_path):
    with pytest.raises(ConfigurationError, match="trusted root"):
        load_policies(policy_file(tmp_path, policy(keyless())), tmp_path / "absent.json")


def test_policy_digest_changes_with_every_input(tmp_path):
    (tmp_path / "release.pub").write_text(PEM)
    root = tmp_path / "root.json"
    root.write_text(SIGSTORE.trusted_root_json)
    path = policy_file(tmp_path, policy({"key": {"file": "release.pub"}}))
    digests = [load_policies(path, root).digest, load_policies(path).digest]
    (tmp_path / "release.pub").write_text(SIGSTORE.key().key.public_pem.decode())
    digests.append(load_policies(path, root).digest)
    root.write_text(root.read_text() + " ")
    digests.append(load_policies(path, root).digest)
    path.write_text(path.read_text() + " ")
    digests.append(load_policies(path, root).digest)
    assert len(set(digests)) == len(digests)
    assert load_policies(path, root).digest == digests[-1]


def test_trusted_root_changed_after_loading_is_ignored(tmp_path):
    root = tmp_path / "root.json"
    root.write_text(SIGSTORE.trusted_root_json)
    trust = load_policies(policy_file(tmp_path, policy(keyless())), root).trust
    root.write_text("no trusted root")
    assert trust.timestampers == ()
    assert trust.find_log(SIGSTORE.rekor.log_id)


def test_embedded_public_root_needs_no_network_or_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", os.devnull)
    monkeypatch.setenv("XDG_CACHE_HOME", os.devnull)
    monkeypatch.setenv("XDG_DATA_HOME", os.devnull)
    trust = load_policies(policy_file(tmp_path, policy(keyless()))).trust
    assert json.loads(trust.content)["tlogs"]
    assert trust.find_authorities(SIGNER.at).roots


def test_duplicate_policy_name_is_rejected(tmp_path):
    with pytest.raises(ConfigurationError, match="two policies with the same name"):
        load_policies(policy_file(tmp_path, policy(keyless()), policy(keyless())))
