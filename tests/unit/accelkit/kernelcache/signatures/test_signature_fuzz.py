"""Whatever is changed in a signature, the answer is a reason, or the signer that it had: never a traceback."""

from __future__ import annotations

import base64
import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from private_sigstore import BUNDLE_V0_2, GITHUB, MOMENT, PrivateSigstore, bundle_v3
from private_sigstore import simple_signing as sign

from accelkit.kernelcache.oci.documents import Descriptor
from accelkit.kernelcache.signatures import bundles, simple_signing
from accelkit.kernelcache.signatures.findings import RejectedError
from accelkit.kernelcache.signatures.keys import load_public_keys
from accelkit.kernelcache.signatures.signature_check import judge_signature
from accelkit.kernelcache.signatures.signer_policy import Signer
from accelkit.kernelcache.signatures.text_patterns import TextMatch
from accelkit.kernelcache.signatures.trust import Authorities, TrustRoot

IDENTITY = "https://github.com/acme/ci/.github/workflows/build.yml@refs/heads/main"
DIGEST = "sha256:" + "ab" * 32
SIGSTORE = PrivateSigstore.new()
SIGNER = SIGSTORE.identity(IDENTITY)
KEY = SIGSTORE.key("rsa")
BUNDLES = [
    bundle_v3(SIGNER, DIGEST),
    bundle_v3(SIGNER, DIGEST, media_type=BUNDLE_V0_2),
    bundle_v3(KEY, DIGEST),
    bundle_v3(KEY, DIGEST, tlog=False),
]
LAYERS = [sign(SIGNER, DIGEST), sign(KEY, DIGEST), sign(KEY, DIGEST, tlog=False)]
SIGNERS = [
    Signer("keyless", issuer=TextMatch(GITHUB), subject=TextMatch(IDENTITY)),
    Signer("key", keys=load_public_keys(KEY.key.public_pem, "test"), log_required=False),
    Signer("ca", authorities=Authorities((SIGSTORE.authority.root,)), log_required=False),
]
NOW = MOMENT + timedelta(days=365)

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([-1, 2**31, 2**53, 2**63, 2**64, "18446744073709551615", "253402300800", "-1", "", "AA=="])
    | st.text(max_size=20)
    | st.binary(max_size=40).map(lambda data: base64.b64encode(data).decode()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)


@pytest.fixture(scope="module")
def trust(tmp_path_factory):
    path = tmp_path_factory.mktemp("trust") / "trusted_root.json"
    path.write_text(SIGSTORE.trusted_root_json)
    return TrustRoot(path)


def paths(value, prefix=()):
    """Every place in a document, the whole excepted."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, each in inner:
        yield (*prefix, name)
        yield from paths(each, (*prefix, name))


def change(data: st.DataObject, document):
    """A document with something else, or nothing, in one place; or with bytes changed inside a text of base64."""
    place = data.draw(st.sampled_from(list(paths(document))))
    parent = document
    for name in place[:-1]:
        parent = parent[name]
    was = parent[place[-1]]
    how = data.draw(st.sampled_from(["replace", "remove", "double", "flip"]))
    if how == "remove":
        del parent[place[-1]]
    elif how == "double" and isinstance(parent, list):
        parent.append(was)
    elif how == "flip" and isinstance(was, str) and was:
        parent[place[-1]] = flipped(data, was)
    else:
        parent[place[-1]] = data.draw(VALUES)
    return document


def flipped(data: st.DataObject, text: str) -> str:
    try:
        raw = bytearray(base64.b64decode(text, validate=True))
    except ValueError:
        raw = bytearray()
    if not raw:
        return text[:-1]
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    return base64.b64encode(raw).decode()


def outcomes(trust, read) -> set[str]:
    """What each signer's judgement says: an identity, or why not."""
    try:
        evidence = read()
    except RejectedError as exc:
        return {exc.message}
    return {outcome(evidence, signer, trust) for signer in SIGNERS}


def outcome(evidence, signer, trust) -> str:
    try:
        return f"held by {judge_signature(evidence, signer, trust, NOW).identity}"
    except RejectedError as exc:
        return exc.message


def assert_sound(found: set[str]) -> None:
    ours = {f"held by {IDENTITY}", f"held by {SIGNERS[1].keys[0].fingerprint}"}
    for each in found - ours:
        assert each
        assert each.isprintable()
        assert not each.startswith("held by")


@given(data=st.data())
def test_mutated_bundle_is_rejected_or_keeps_its_signer(trust, data):
    document = change(data, json.loads(data.draw(st.sampled_from(BUNDLES))))
    changed = json.dumps(document).encode()
    assert_sound(outcomes(trust, lambda: bundles.read_image_evidence(changed, DIGEST, "test")))


@given(data=st.data())
def test_mutated_signature_layer_is_rejected_or_keeps_its_signer(trust, data):
    signing = data.draw(st.sampled_from(LAYERS))
    fields = {name: nested(text) for name, text in signing.annotations.items()}
    document = change(data, {"payload": json.loads(signing.payload), "annotations": fields})
    annotations = document.get("annotations") or {}
    if not isinstance(annotations, dict):
        annotations = {}
    texts = {name: each if isinstance(each, str) else json.dumps(each) for name, each in annotations.items()}
    layer = Descriptor(simple_signing.PAYLOAD_TYPE, DIGEST, 1, annotations=texts)
    changed = json.dumps(document.get("payload"), separators=(",", ":")).encode()
    assert_sound(
        outcomes(trust, lambda: simple_signing.read_image_evidence(changed, layer.annotations, DIGEST, "test"))
    )


def nested(text):
    return json.loads(text) if text.startswith("{") else text


@given(data=st.data())
def test_mutated_log_entry_body_is_rejected_or_keeps_its_signer(trust, data):
    document = json.loads(data.draw(st.sampled_from(BUNDLES[:3])))
    entry = document["verificationMaterial"]["tlogEntries"][0]
    body = change(data, json.loads(base64.b64decode(entry["canonicalizedBody"])))
    signer = KEY if "publicKey" in document["verificationMaterial"] else SIGNER
    made = bundle_v3(signer, DIGEST, body=json.dumps({"kind": None, "apiVersion": None, **body}).encode())
    assert_sound(outcomes(trust, lambda: bundles.read_image_evidence(made, DIGEST, "test")))


@given(content=st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_arbitrary_bytes_are_rejected_as_bundle(content):
    with pytest.raises(RejectedError):
        bundles.read_image_evidence(content, DIGEST, "test")


@given(content=st.binary(max_size=200), text=st.text(max_size=50))
def test_arbitrary_bytes_are_rejected_as_payload(content, text):
    layer = Descriptor(simple_signing.PAYLOAD_TYPE, DIGEST, 1, annotations={"dev.cosignproject.cosign/signature": text})
    with pytest.raises(RejectedError):
        simple_signing.read_image_evidence(content, layer.annotations, DIGEST, "test")
