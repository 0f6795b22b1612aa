from __future__ import annotations

import pytest

from accelkit.errors import ConfigurationError
from accelkit.extender.listen import Listen, parse_listen


def listen(address, *, plain_http=True, certificate=None, key=None, client_ca=None):
    return parse_listen(address, plain_http=plain_http, certificate=certificate, key=key, client_ca=client_ca)


@pytest.mark.parametrize(
    ("address", "expected"),
    [("127.0.0.1:8080", Listen("127.0.0.1", 8080)), ("[::1]:8080", Listen("::1", 8080))],
)
def test_plain_http_is_served_on_loopback(address, expected):
    assert listen(address) == expected


@pytest.mark.parametrize("address", ["0.0.0.0:8080", "10.0.0.1:8080", "[::]:8080"])
def test_plain_http_beyond_loopback_is_refused(address):
    with pytest.raises(ConfigurationError, match="loopback address only") as raised:
        listen(address)
    assert "--tls-cert" in raised.value.next_step


@pytest.mark.parametrize(
    "address",
    [
        "",
        "8080",
        ":8080",
        "127.0.0.1",
        "127.0.0.1:",
        "localhost:80",
        "127.0.0.1:http",
        "127.0.0.1:-1",
        "127.0.0.1:0",
        "127.0.0.1:65536",
    ],
)
def test_what_is_no_address_is_refused_with_an_example(address):
    with pytest.raises(ConfigurationError, match="no address to listen on; write it as"):
        listen(address)


@pytest.mark.parametrize("missing", ["certificate", "key", "client_ca"])
def test_tls_needs_all_three_files(tmp_path, missing):
    files = dict.fromkeys(["certificate", "key", "client_ca"], tmp_path) | {missing: None}
    with pytest.raises(ConfigurationError, match="serves TLS to clients with certificates"):
        listen("0.0.0.0:8080", plain_http=False, **files)


def test_a_certificate_that_is_not_there_is_named(tmp_path):
    path = tmp_path / "missing.pem"
    with pytest.raises(ConfigurationError, match=r"missing\.pem is not a file"):
        listen("0.0.0.0:8080", plain_http=False, certificate=path, key=path, client_ca=path)


@pytest.mark.parametrize("port", [1, 65535])
def test_every_port_that_there_is_can_be_listened_on(port):
    assert listen(f"127.0.0.1:{port}").port == port
