from dataclasses import replace

import pytest
from cryptography.hazmat.primitives import serialization
from http_service import Pki

from accelkit.errors import ConfigurationError
from accelkit.extender.listen import parse_listen, parse_reads
from accelkit.serving.tls import Listen


def listen(address, *, plain_http=True, certificate=None, key=None, client_ca=None, client_names=("a",)):
    files = {"certificate": certificate, "key": key, "client_ca": client_ca, "client_names": client_names}
    return parse_listen(address, plain_http=plain_http, **files)


@pytest.mark.parametrize(
    ("address", "expected"),
    [("127.0.0.1:1", Listen("127.0.0.1", 1)), ("[::1]:65535", Listen("::1", 65535))],
)
def test_plain_http_is_allowed_on_loopback(address, expected):
    assert listen(address) == expected


@pytest.mark.parametrize("address", ["0.0.0.0:8080", "10.0.0.1:8080", "[::]:8080"])
def test_plain_http_on_other_addresses_is_refused(address):
    with pytest.raises(ConfigurationError, match="not a loopback address") as raised:
        listen(address)
    assert "--tls-cert" in raised.value.next_step


@pytest.mark.parametrize(
    "address", ["", ":8080", "127.0.0.1", "localhost:80", "127.0.0.1:http", "127.0.0.1:0", "127.0.0.1:65536"]
)
def test_invalid_listen_address_is_refused_with_example(address):
    with pytest.raises(ConfigurationError, match="not a valid listen address; use the form"):
        listen(address)


@pytest.mark.parametrize("missing", ["certificate", "key", "client_ca"])
def test_tls_requires_all_three_files(tmp_path, missing):
    files = dict.fromkeys(["certificate", "key", "client_ca"], tmp_path) | {missing: None}
    with pytest.raises(ConfigurationError, match="cannot serve TLS without certificates"):
        listen("0.0.0.0:8080", plain_http=False, **files)


def listen_with(files):
    return listen("198.51.100.1:8080", plain_http=False, **vars(files))


def test_tls_is_allowed_on_any_address(pki):
    assert listen_with(pki.files) == Listen("198.51.100.1", 8080, pki.files)


@pytest.mark.parametrize("name", ["certificate", "key"])
@pytest.mark.parametrize("content", ["nonsense", ""])
def test_unusable_certificate_or_key_is_refused_with_both_names(pki, name, content):
    getattr(pki.files, name).write_text(content)
    sentence = f"cannot use the certificate {pki.files.certificate} with the key {pki.files.key}: "
    with pytest.raises(ConfigurationError, match=sentence):
        listen_with(pki.files)


def test_missing_client_name_is_refused(pki):
    with pytest.raises(ConfigurationError, match="no client name is set") as raised:
        listen_with(replace(pki.files, client_names=frozenset()))
    assert "--client-name" in raised.value.next_step


def test_encrypted_key_is_refused_without_password_prompt(pki):
    key = serialization.load_pem_private_key(pki.files.key.read_bytes(), None)
    encryption = serialization.BestAvailableEncryption(b"x")
    traditional = serialization.PrivateFormat.TraditionalOpenSSL
    pki.files.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, traditional, encryption))
    with pytest.raises(ConfigurationError, match=r"cannot use the certificate .*server\.key: "):
        listen_with(pki.files)


def test_unusable_client_ca_is_refused_with_its_path(pki):
    pki.files.client_ca.write_text("nonsense")
    with pytest.raises(ConfigurationError, match=f"cannot use the authority {pki.files.client_ca}: "):
        listen_with(pki.files)


@pytest.mark.parametrize("name", ["certificate", "key", "client_ca"])
def test_missing_tls_file_is_named(pki, name):
    getattr(pki.files, name).unlink()
    with pytest.raises(ConfigurationError, match=f"cannot read {getattr(pki.files, name)}: it does not exist"):
        listen_with(pki.files)


def test_read_port_uses_server_certificate_without_client_ca(tmp_path):
    files = Pki(tmp_path).files
    at = Listen("0.0.0.0", 8080, files)  # noqa: S104 - nothing listens
    assert parse_reads(at, 4000, "s") == Listen(at.host, 4000, replace(files, client_ca=None))
    assert parse_reads(at, None, "s") is None


@pytest.mark.parametrize("service", [None, "", "s"])
def test_read_port_requires_tls_and_service(tmp_path, service):
    at = Listen("127.0.0.1", 8080, None if service else Pki(tmp_path).files)
    with pytest.raises(ConfigurationError, match="--read-port requires TLS and a Service"):
        parse_reads(at, 4000, service)
