from __future__ import annotations

import base64
import datetime as dt
import ssl
from pathlib import Path

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from accelkit.errors import ConfigurationError
from accelkit.kube import connection
from accelkit.kube.connection import load_connection


@pytest.fixture(scope="module")
def pem():
    """A self-signed certificate and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = dt.datetime.now(tz=dt.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return {"certificate": certificate.public_bytes(serialization.Encoding.PEM), "key": private}


def encoded(data):
    return base64.b64encode(data).decode()


@pytest.fixture
def write(tmp_path):
    """Write a kubeconfig with these entries; return its path."""

    def write(cluster=None, user=None, **changes):
        document = {
            "current-context": "c",
            "contexts": [{"name": "other", "context": {}}, {"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": {"server": "https://h:6443/"} | (cluster or {})}],
            "users": [{"name": "u", "user": user or {}}],
        }
        path = tmp_path / "config"
        path.write_bytes(msgspec.json.encode(document | changes))
        return path

    return write


def test_credentials_in_the_file_itself_are_used(write, pem):
    found = load_connection(
        write(
            {"certificate-authority-data": encoded(pem["certificate"])},
            {"client-certificate-data": encoded(pem["certificate"]), "client-key-data": encoded(pem["key"])},
        )
    )
    assert (found.server, found.read_bearer()) == ("https://h:6443", None)
    assert len(found.tls.get_ca_certs()) == 1
    assert found.tls.verify_mode is ssl.CERT_REQUIRED


def test_credentials_in_files_beside_it_are_found(write, pem, tmp_path):
    for name, data in pem.items():
        (tmp_path / f"{name}.pem").write_bytes(data)
    found = load_connection(
        write(
            {"certificate-authority": "certificate.pem"},
            {"client-certificate": "certificate.pem", "client-key": str(tmp_path / "key.pem")},
        )
    )
    assert len(found.tls.get_ca_certs()) == 1


def test_a_token_is_carried(write):
    assert load_connection(write(user={"token": "t"})).read_bearer() == "t"


def test_a_token_file_beside_it_wins_over_a_token(write, tmp_path):
    (tmp_path / "token").write_text("from file\n")
    assert load_connection(write(user={"token": "t", "tokenFile": "token"})).read_bearer() == "from file"


def test_an_empty_token_is_none(write):
    assert load_connection(write(user={"token": None})).read_bearer() is None


def test_verification_can_be_switched_off(write):
    found = load_connection(write({"insecure-skip-tls-verify": True}))
    assert (found.tls.verify_mode, found.tls.check_hostname) == (ssl.CERT_NONE, False)


def test_plain_http_needs_no_certificates(write):
    found = load_connection(write({"server": "http://127.0.0.1:8080"}))
    assert (found.server, found.tls) == ("http://127.0.0.1:8080", None)


def test_a_context_without_a_user_has_no_credentials(write):
    assert load_connection(write(contexts=[{"name": "c", "context": {"cluster": "k"}}])).read_bearer() is None


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"current-context": "nowhere"}, "no entry named 'nowhere' under contexts"),
        ({"current-context": None}, "no entry named None under contexts"),
        ({"clusters": []}, "no entry named 'k' under clusters"),
        ({"users": None}, "no entry named 'u' under users"),
        ({"contexts": ["c"]}, "contexts"),
        ({"contexts": 5}, "contexts"),
        ({"contexts": [{"name": "c", "context": "k"}]}, "context"),
        ({"cluster": {"server": ""}}, "server"),
        ({"cluster": {"server": "h:6443"}}, "server"),
        ({"cluster": {"certificate-authority-data": "!"}}, "cannot be used"),
        ({"cluster": {"certificate-authority-data": encoded(b"no PEM")}}, "cannot be used"),
        ({"cluster": {"certificate-authority": "missing.pem"}}, "missing.pem"),
        ({"user": {"client-certificate": "missing.pem", "client-key": "missing.key"}}, "missing.pem"),
        ({"user": {"client-certificate-data": encoded(b"no PEM")}}, "client-key-data"),
        ({"user": {"client-certificate-data": "!", "client-key-data": "!"}}, "cannot be used"),
    ],
)
def test_what_cannot_be_used_is_named_with_the_file(write, changes, sentence):
    path = write(**changes)
    with pytest.raises(ConfigurationError) as raised:
        load_connection(path)
    assert str(path) in raised.value.message
    assert sentence in raised.value.message


@pytest.mark.parametrize("content", [b"", b"[]", b"text", b"a: [", b"\xff\xfe\x00", b"a: &a [*a"])
def test_a_file_that_is_no_kubeconfig_is_refused(tmp_path, content):
    path = tmp_path / "config"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=str(path)):
        load_connection(path)


@pytest.mark.parametrize("path", ["missing", "."])
def test_a_path_that_is_no_file_is_refused(tmp_path, path):
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_connection(tmp_path / path)


def test_the_environment_names_the_kubeconfig(write):
    environ = {"KUBECONFIG": f"{write(user={'token': 't'})}:/other", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    assert load_connection(environ=environ).read_bearer() == "t"


def test_a_kubeconfig_at_home_is_the_last_resort(write, tmp_path):
    (tmp_path / ".kube").mkdir()
    write(user={"token": "t"}).rename(tmp_path / ".kube" / "config")
    assert load_connection(environ={"HOME": str(tmp_path)}).read_bearer() == "t"


def test_no_cluster_at_all_says_what_to_do():
    with pytest.raises(ConfigurationError, match="set KUBECONFIG or pass --kubeconfig"):
        load_connection(environ={"HOME": "/nonexistent"})


@pytest.mark.parametrize(
    ("host", "url"), [("10.0.0.1", "https://10.0.0.1:6443"), ("fd00::1", "https://[fd00::1]:6443")]
)
def test_a_pod_uses_its_service_account(monkeypatch, tmp_path, pem, host, url):
    monkeypatch.setattr(connection, "SERVICE_ACCOUNT", tmp_path)
    (tmp_path / "ca.crt").write_bytes(pem["certificate"])
    (tmp_path / "token").write_text("t")
    found = load_connection(environ={"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "6443"})
    assert (found.server, found.read_bearer()) == (url, "t")


def test_a_pod_without_its_service_account_says_so(monkeypatch):
    monkeypatch.setattr(connection, "SERVICE_ACCOUNT", Path("/nonexistent"))
    with pytest.raises(ConfigurationError, match="service account"):
        load_connection(environ={"KUBERNETES_SERVICE_HOST": "10.0.0.1"})
