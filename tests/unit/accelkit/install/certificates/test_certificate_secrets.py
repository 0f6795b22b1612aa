from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from accelkit.errors import CertificateError, ConfigurationError
from accelkit.install.certificates.issuing import Authority, KeyPair
from accelkit.install.certificates.secrets import (
    AUTHORITY,
    CLIENT,
    SERVER,
    CertificateSpec,
    check_given,
    check_leaf,
    read_secrets,
    renew_secrets,
    write_secrets,
)
from accelkit.kube.paths import build_object_path, build_secrets_path

NAMES = ("accelkit-extender.accelkit.svc", "10.96.0.20")
SPEC = CertificateSpec(NAMES)


@pytest.fixture(scope="module")
def made():
    return renew_secrets({}, SPEC)


def pair(data, name):
    return KeyPair(data[name]["tls.crt"], data[name]["tls.key"])


def check(data, name, bundle=None):
    """Confirm that a leaf of these Secrets can be used."""
    names = NAMES if name == SERVER else ()
    check_leaf(pair(data, name), bundle or data[name]["ca.crt"], name, names, datetime.now(UTC))


def test_missing_certificates_are_created(made):
    check(made, SERVER)
    check(made, CLIENT)
    # Made for one purpose, of no use for the other.
    with pytest.raises(CertificateError, match="it is not a server certificate"):
        check_leaf(pair(made, CLIENT), made[CLIENT]["ca.crt"], SERVER, (), datetime.now(UTC))


def test_valid_certificates_remain_unchanged(made):
    assert renew_secrets(made, SPEC) == made


def test_changed_names_replace_only_the_server_certificate(made):
    again = renew_secrets(made, CertificateSpec((*NAMES, "other")))
    assert again[SERVER] != made[SERVER]
    assert again[CLIENT] == made[CLIENT]
    assert again[AUTHORITY] == made[AUTHORITY]


def test_leaf_certificates_are_renewed_before_expiry(made):
    again = renew_secrets(made, CertificateSpec(NAMES, timedelta(days=366)))
    assert again[AUTHORITY] == made[AUTHORITY]
    assert pair(again, SERVER) != pair(made, SERVER)
    assert pair(again, CLIENT) != pair(made, CLIENT)


def test_new_authority_is_trusted_one_run_before_signing(made):
    rotated = renew_secrets(made, CertificateSpec(NAMES, rotate_ca=True))
    assert rotated[AUTHORITY]["tls.crt"] != made[AUTHORITY]["tls.crt"]
    assert len(x509.load_pem_x509_certificates(rotated[SERVER]["ca.crt"])) == 2
    # Whoever knows the former authority alone goes on understanding everybody.
    assert pair(rotated, SERVER) == pair(made, SERVER)
    check(rotated, SERVER, made[AUTHORITY]["tls.crt"])
    following = renew_secrets(rotated, SPEC)
    check(following, SERVER, rotated[AUTHORITY]["tls.crt"])
    assert following[SERVER]["ca.crt"] == rotated[SERVER]["ca.crt"]
    assert renew_secrets(following, SPEC) == following


def test_expired_authority_is_removed_from_the_bundle(made):
    ended = Authority("ended", timedelta(seconds=0)).certificate
    stored = {**made, AUTHORITY: {**made[AUTHORITY], "ca.crt": made[AUTHORITY]["tls.crt"] + ended}}
    assert renew_secrets(stored, SPEC)[SERVER]["ca.crt"] == made[AUTHORITY]["tls.crt"]


def test_unreadable_authority_is_not_overwritten(made):
    with pytest.raises(ConfigurationError, match="restore that Secret"):
        renew_secrets({**made, AUTHORITY: {"tls.crt": b"x", "tls.key": b"y"}}, SPEC)


def test_provided_certificates_are_validated():
    ours, others = Authority("ours"), Authority("others")
    server, client = ours.issue_server("s", NAMES), ours.issue_client("c")
    assert set(check_given(ours.certificate, server, client, SPEC)) == {SERVER, CLIENT}
    for wrong, sentence in [
        (others.issue_server("s", NAMES), "no trusted authority has signed it"),
        (ours.issue_server("s", ("other",)), "it is not valid for accelkit-extender.accelkit.svc, 10.96.0.20"),
        (ours.issue_client("s"), "it is not a server certificate"),
        (KeyPair(server.certificate, client.key), "its key belongs to another certificate"),
        (KeyPair(b"", b""), "it cannot be read"),
    ]:
        with pytest.raises(ConfigurationError, match=sentence):
            check_given(ours.certificate, wrong, client, SPEC)


async def test_secrets_are_read_as_written(api, made):
    assert await read_secrets(api, "ours") == {}
    await write_secrets(api, "ours", made, {"app": "x"})
    assert await read_secrets(api, "ours") == made
    stored = api.objects[build_object_path(build_secrets_path("ours"), SERVER)]
    assert (stored["type"], stored["metadata"]["labels"]) == ("kubernetes.io/tls", {"app": "x"})


async def test_existing_secret_is_replaced(api, made):
    await write_secrets(api, "ours", {SERVER: made[SERVER]}, {})
    await write_secrets(api, "ours", {SERVER: {"tls.crt": b"new"}}, {})
    assert await read_secrets(api, "ours") == {SERVER: {"tls.crt": b"new"}}


async def test_unreadable_secret_is_named(api):
    api.store(build_secrets_path("ours"), {"metadata": {"name": CLIENT}, "data": {"tls.crt": "!"}})
    with pytest.raises(ConfigurationError, match="cannot read Secret ours/accelkit-scheduler-client"):
        await read_secrets(api, "ours")
