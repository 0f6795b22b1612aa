import json

import pytest
from ansible_collections.accelkit.kubernetes.plugins.modules import tls_authority
from cryptography import x509

from accelkit.install.certificates.issuing import Authority
from accelkit.install.certificates.secrets import AUTHORITY, CLIENT, SERVER, WEBHOOK

NAMES = ["accelkit-extender.accelkit.svc"]
WEBHOOK_NAMES = ["accelkit-cache-controller.accelkit.svc"]


class Secrets:
    """The Secrets of a namespace, and the names of those that were written, call by call."""

    def __init__(self):
        self.stored, self.labels, self.written = {}, {}, []

    async def read(self, _api, namespace):
        assert namespace == "ours"
        return dict(self.stored)

    async def write(self, _api, namespace, data, labels):
        assert namespace == "ours"
        self.written.append(sorted(data))
        self.stored |= data
        self.labels |= dict.fromkeys(data, labels)


@pytest.fixture
def secrets(monkeypatch, kubeconfig):
    secrets = Secrets()
    monkeypatch.setattr(tls_authority, "read_secrets", secrets.read)
    monkeypatch.setattr(tls_authority, "write_secrets", secrets.write)
    return secrets


@pytest.fixture
def keep(run_module, secrets):
    def keep(*, check=False, **more):
        return run_module(tls_authority, {"namespace": "ours", "names": NAMES, **more}, check=check)

    return keep


def credentials(secrets):
    texts = {key: secrets.stored[CLIENT][name].decode() for key, name in (("ca", "ca.crt"), ("key", "tls.key"))}
    return texts | {"certificate": secrets.stored[CLIENT]["tls.crt"].decode()}


def test_certificates_are_created_once(keep, secrets):
    made = keep(labels={"app": "x"})
    assert (made["changed"], secrets.written) == (True, [sorted([AUTHORITY, CLIENT, SERVER])])
    assert secrets.labels[SERVER] == {"app": "x"}
    assert made["credentials"] == credentials(secrets)
    assert set(made["not_after"]) == {AUTHORITY, CLIENT, SERVER}
    again = keep()
    assert (again["changed"], len(secrets.written)) == (False, 1)
    assert again["credentials"] == made["credentials"]
    assert again["diff"]["before"] == again["diff"]["after"] == made["diff"]["after"]


def test_check_mode_writes_nothing(keep, secrets):
    answer = keep(check=True)
    assert (answer["changed"], secrets.written) == (True, [])
    assert (answer["diff"]["before"], set(answer["diff"]["after"])) == ({}, {AUTHORITY, CLIENT, SERVER})


def test_only_changed_certificate_is_written(keep, secrets):
    keep()
    answer = keep(names=[*NAMES, "other"])
    assert secrets.written[1:] == [[SERVER]]
    changed = {name for name, redact in answer["diff"]["after"].items() if redact != answer["diff"]["before"][name]}
    assert changed == {SERVER}


def test_renew_days_and_rotate_ca_renew_certificates(keep, secrets):
    keep()
    assert not keep(renew_days=300)["changed"]
    assert keep(renew_days=366)["changed"]
    assert secrets.written[1:] == [[SERVER, CLIENT]]
    keep(rotate_ca=True)
    assert secrets.written[2:] == [sorted([AUTHORITY, CLIENT, SERVER])]


def test_diff_contains_no_certificates_or_keys(keep):
    assert "-----BEGIN" not in json.dumps(keep()["diff"])


def given(authority, **more):
    server, client = authority.issue_server("s", NAMES), authority.issue_client("c")
    texts = {"ca": authority.certificate, "certificate": client.certificate, "key": client.key}
    texts |= {"server": server.certificate, "server_key": server.key} | more
    return {name: text.decode() for name, text in texts.items() if text is not None}


def test_given_certificates_are_used(keep, secrets):
    theirs = given(Authority("theirs"))
    answer = keep(given=theirs)
    assert secrets.written == [[SERVER, CLIENT]]
    assert secrets.stored[SERVER]["tls.crt"].decode() == theirs["server"]
    assert answer["credentials"] == {name: theirs[name] for name in ("ca", "certificate", "key")}
    assert not keep(given=theirs)["changed"]


def test_existing_server_secret_is_verified_and_not_changed(keep, secrets):
    theirs = Authority("theirs")
    server = theirs.issue_server("s", NAMES)
    foreign = {"tls.crt": server.certificate, "tls.key": server.key}
    secrets.stored[SERVER] = foreign
    assert keep(given=given(theirs, server=None, server_key=None))["changed"]
    assert secrets.written == [[CLIENT]]
    assert secrets.stored[SERVER] == foreign
    refused = keep(given=given(Authority("others"), server=None, server_key=None))
    assert refused["failed"]
    assert "no trusted authority has signed it" in refused["msg"]


def test_certificate_without_key_is_rejected(keep, secrets):
    answer = keep(given=given(Authority("theirs"), server_key=None))
    assert answer["failed"]
    assert "server_key" in answer["msg"]
    assert secrets.written == []


def test_expiring_certificates_are_listed_until_renewed(keep):
    keep()
    soon = keep(renew_days=366, check=True)
    assert [each.split(" is valid until ") for each in soon["ending"]] == [
        [SERVER, soon["diff"]["before"][SERVER]["not_after"]],
        [CLIENT, soon["diff"]["before"][CLIENT]["not_after"]],
    ]
    assert keep(renew_days=364, check=True)["ending"] == []
    # A run renews them.
    assert keep(renew_days=364)["ending"] == []


def test_expiring_given_certificates_are_listed_and_not_renewed(keep, secrets):
    theirs = Authority("theirs")
    texts = given(theirs)
    assert keep(given=texts)["ending"] == []
    soon = keep(given=texts, renew_days=366)
    assert ([each.split()[0] for each in soon["ending"]], soon["changed"]) == ([SERVER, CLIENT], False)
    # Of the one whose Secret is kept by others, too.
    texts = {key: text for key, text in texts.items() if not key.startswith("server")}
    assert [each.split()[0] for each in keep(given=texts, renew_days=366)["ending"]] == [SERVER, CLIENT]


def test_webhook_certificate_is_issued_when_webhook_has_names(keep, secrets):
    keep()
    answer = keep(webhook_names=WEBHOOK_NAMES)
    assert secrets.written[1:] == [[WEBHOOK]]
    assert set(answer["diff"]["after"]) == {AUTHORITY, CLIENT, SERVER, WEBHOOK}
    certificate = x509.load_pem_x509_certificate(secrets.stored[WEBHOOK]["tls.crt"])
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [each.value for each in names] == WEBHOOK_NAMES
    # Whoever is to trust it finds the authority beside it; its key is no other one's.
    assert secrets.stored[WEBHOOK]["ca.crt"] == secrets.stored[AUTHORITY]["ca.crt"]
    assert secrets.stored[WEBHOOK]["tls.key"] != secrets.stored[SERVER]["tls.key"]
    assert not keep(webhook_names=WEBHOOK_NAMES)["changed"]
    assert keep(webhook_names=["other.accelkit.svc"])["changed"]
    # One that is not wanted is none of this module's business.
    assert not keep()["changed"]
    assert WEBHOOK not in keep(renew_days=366, check=True)["diff"]["after"]


def test_webhook_certificate_is_issued_beside_given_certificates(keep, secrets):
    theirs = given(Authority("theirs"))
    keep(given=theirs, webhook_names=WEBHOOK_NAMES)
    assert sorted(secrets.written[0]) == sorted([AUTHORITY, CLIENT, SERVER, WEBHOOK])
    assert secrets.stored[SERVER]["ca.crt"].decode() == theirs["ca"]
    assert secrets.stored[WEBHOOK]["ca.crt"] == secrets.stored[AUTHORITY]["tls.crt"]
    assert not keep(given=theirs, webhook_names=WEBHOOK_NAMES)["changed"]
