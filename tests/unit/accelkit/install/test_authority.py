from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from accelkit.errors import ConfigurationError
from accelkit.install.authority import AUTHORITY, CLIENT, SERVER, Wanted, given, problem_of, renewed
from accelkit.install.certificates import Authority, KeyPair

NAMES = ("accelkit-extender.accelkit.svc", "10.96.0.20")
WANTED = Wanted(NAMES)


@pytest.fixture(scope="module")
def made():
    return renewed({}, WANTED)


def pair(data, name):
    return KeyPair(data[name]["tls.crt"], data[name]["tls.key"])


def good(data, name, bundle=None):
    names = NAMES if name == SERVER else ()
    return problem_of(pair(data, name), bundle or data[name]["ca.crt"], name, names, datetime.now(UTC)) == ""


def test_what_is_missing_is_made(made):
    assert good(made, SERVER)
    assert good(made, CLIENT)
    # Made for one purpose, of no use for the other.
    assert problem_of(pair(made, CLIENT), made[CLIENT]["ca.crt"], SERVER, (), datetime.now(UTC))


def test_what_is_good_stays_byte_for_byte(made):
    assert renewed(made, WANTED) == made


def test_other_names_need_another_leaf_of_the_server_alone(made):
    again = renewed(made, Wanted((*NAMES, "other")))
    assert again[SERVER] != made[SERVER]
    assert again[CLIENT] == made[CLIENT]
    assert again[AUTHORITY] == made[AUTHORITY]


def test_leaves_are_renewed_before_they_end(made):
    again = renewed(made, Wanted(NAMES, timedelta(days=366)))
    assert again[AUTHORITY] == made[AUTHORITY]
    assert pair(again, SERVER) != pair(made, SERVER)
    assert pair(again, CLIENT) != pair(made, CLIENT)


def test_a_new_authority_is_trusted_a_run_before_it_signs(made):
    rotated = renewed(made, Wanted(NAMES, rotate_ca=True))
    assert rotated[AUTHORITY]["tls.crt"] != made[AUTHORITY]["tls.crt"]
    assert len(x509.load_pem_x509_certificates(rotated[SERVER]["ca.crt"])) == 2
    # Whoever knows the former authority alone goes on understanding everybody.
    assert pair(rotated, SERVER) == pair(made, SERVER)
    assert good(rotated, SERVER, made[AUTHORITY]["tls.crt"])
    following = renewed(rotated, WANTED)
    assert good(following, SERVER, rotated[AUTHORITY]["tls.crt"])
    assert following[SERVER]["ca.crt"] == rotated[SERVER]["ca.crt"]
    assert renewed(following, WANTED) == following


def test_an_ended_authority_leaves_the_bundle(made):
    ended = Authority("ended", timedelta(seconds=0)).certificate
    stored = {**made, AUTHORITY: {**made[AUTHORITY], "ca.crt": made[AUTHORITY]["tls.crt"] + ended}}
    assert renewed(stored, WANTED)[SERVER]["ca.crt"] == made[AUTHORITY]["tls.crt"]


def test_an_authority_that_cannot_be_read_is_not_thrown_away(made):
    with pytest.raises(ConfigurationError, match="restore that Secret"):
        renewed({**made, AUTHORITY: {"tls.crt": b"x", "tls.key": b"y"}}, WANTED)


def test_given_certificates_are_checked():
    ours, others = Authority("ours"), Authority("others")
    server, client = ours.server("s", NAMES), ours.client("c")
    assert set(given(ours.certificate, server, client, WANTED)) == {SERVER, CLIENT}
    for wrong, sentence in [
        (others.server("s", NAMES), "none of the authorities has signed it"),
        (ours.server("s", ("other",)), "it is not for accelkit-extender.accelkit.svc, 10.96.0.20"),
        (ours.client("s"), "it is not for a server"),
        (KeyPair(server.certificate, client.key), "its key is another one's"),
        (KeyPair(b"", b""), "it cannot be read"),
    ]:
        with pytest.raises(ConfigurationError, match=sentence):
            given(ours.certificate, wrong, client, WANTED)
