import ssl

import pytest
from registries.hostile import HostileRegistry
from registries.tls import serving

from accelkit.errors import ConfigurationError, ServiceError
from accelkit.inspection.extender_client import Address, is_loopback, load_tls, query_extender
from accelkit.install.certificates.issuing import Authority


async def test_query_requests_all_nodes_or_one_node(hostile_registry, answer, inspection):
    answer(hostile_registry, "/inspect", inspection)
    answer(hostile_registry, "/inspect/n", inspection)
    assert await query_extender(Address(hostile_registry.url), None) == inspection
    assert await query_extender(Address(f"{hostile_registry.url}/"), "n") == inspection
    assert [each.path for each in hostile_registry.requests] == ["/inspect", "/inspect/n"]


async def test_node_name_is_escaped_in_the_url(hostile_registry, answer, inspection):
    answer(hostile_registry, "/inspect/..%2Fversion%3Fx", inspection)
    assert await query_extender(Address(hostile_registry.url), "../version?x") == inspection


async def test_unreachable_extender_is_an_error_with_next_step():
    with HostileRegistry() as registry:
        url = registry.url
    with pytest.raises(ServiceError, match=rf"cannot reach the extender at {url}: .+") as raised:
        await query_extender(Address(url), None)
    assert raised.value.next_step == "set its URL with --extender, or read from the API server with --from-api"


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [({"error": "there is no node 'x'"}, 404, "there is no node 'x'"), ({}, 503, "HTTP 503")],
)
async def test_extender_error_is_returned_unchanged(hostile_registry, answer, body, status, words):
    answer(hostile_registry, "/inspect/x", body, status)
    with pytest.raises(ServiceError, match=f"^{words}$"):
        await query_extender(Address(hostile_registry.url), "x")


@pytest.mark.parametrize("status", [200, 502])
@pytest.mark.parametrize("body", [b"<html>", b'{"nodes": 1}', b""])
async def test_foreign_response_is_an_error_with_the_url(hostile_registry, answer, body, status):
    answer(hostile_registry, "/inspect", body, status)
    with pytest.raises(ServiceError, match=f"cannot decode the response from {hostile_registry.url}"):
        await query_extender(Address(hostile_registry.url), None)


async def test_extender_with_untrusted_certificate_is_refused(tmp_path, answer, inspection):
    context, _ = serving(tmp_path)
    with HostileRegistry(tls=context) as registry:
        answer(registry, "/inspect", inspection)
        with pytest.raises(ServiceError, match="CERTIFICATE_VERIFY_FAILED"):
            await query_extender(Address(registry.url), None)


async def test_server_name_option_matches_another_certificate_name(tmp_path, answer, inspection):
    context, authority = serving(tmp_path, "extender.accelkit.svc")
    tls = load_tls(authority, None, None)
    with HostileRegistry(tls=context) as registry:
        answer(registry, "/inspect", inspection)
        with pytest.raises(ServiceError, match="CERTIFICATE_VERIFY_FAILED"):
            await query_extender(Address(registry.url, tls), None)
        assert await query_extender(Address(registry.url, tls, "extender.accelkit.svc"), None) == inspection


async def test_client_certificate_is_sent_if_required(tmp_path, answer, inspection):
    context, authority = serving(tmp_path)
    clients = Authority("clients of the test")
    context.load_verify_locations(cadata=clients.certificate.decode())
    context.verify_mode = ssl.CERT_REQUIRED
    pair = clients.issue_client("reader")
    cert, key = tmp_path / "client.pem", tmp_path / "client.key"
    cert.write_bytes(pair.certificate)
    key.write_bytes(pair.key)
    with HostileRegistry(tls=context) as registry:
        answer(registry, "/inspect", inspection)
        with pytest.raises(ServiceError, match="cannot reach the extender"):
            await query_extender(Address(registry.url, load_tls(authority, None, None)), None)
        assert await query_extender(Address(registry.url, load_tls(authority, cert, key)), None) == inspection


def test_tls_context_is_not_created_without_files(tmp_path):
    assert load_tls(None, None, None) is None
    assert load_tls(None, None, tmp_path / "key of no certificate") is None


def test_client_certificate_without_ca_uses_system_authorities(tmp_path):
    pair = Authority("clients of the test").issue_client("reader")
    chain = tmp_path / "client.pem"
    chain.write_bytes(pair.certificate + pair.key)
    context = load_tls(None, chain, None)
    assert context.get_ca_certs() == ssl.create_default_context().get_ca_certs()


@pytest.mark.parametrize(("place", "words"), [(0, ""), (1, ""), (0, ".*No such file")])
def test_unusable_certificate_file_is_an_error(tmp_path, place, words):
    files = [None, None, None]
    files[place] = tmp_path / "garbled.pem"
    if not words:
        files[place].write_text("garbled")
    with pytest.raises(ConfigurationError, match=f"cannot use the certificates: {words}"):
        load_tls(*files)


@pytest.mark.parametrize(
    ("url", "answer"),
    [
        ("https://127.0.0.1:6443", True),
        ("http://[::1]:80", True),
        ("https://10.0.0.1", False),
        ("https://localhost.example.org", False),
        ("https://127.0.0.1.example.org", False),
        ("", False),
    ],
)
def test_only_loopback_ip_address_counts_as_loopback(url, answer):
    assert is_loopback(url) is answer
