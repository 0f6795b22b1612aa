import ssl

import pytest
from registries.hostile import HostileRegistry
from registries.tls import serving

from accelkit.errors import ConfigurationError, ServiceError
from accelkit.inspection.extender_client import Address, is_loopback, load_tls, query_extender
from accelkit.install.certificates.issuing import Authority


async def test_an_extender_is_asked_for_all_nodes_or_for_one(hostile_registry, answer, inspection):
    answer(hostile_registry, "/inspect", inspection)
    answer(hostile_registry, "/inspect/n", inspection)
    assert await query_extender(Address(hostile_registry.url), None) == inspection
    assert await query_extender(Address(f"{hostile_registry.url}/"), "n") == inspection
    assert [each.path for each in hostile_registry.requests] == ["/inspect", "/inspect/n"]


async def test_no_name_of_a_node_leads_to_another_page(hostile_registry, answer, inspection):
    answer(hostile_registry, "/inspect/..%2Fversion%3Fx", inspection)
    assert await query_extender(Address(hostile_registry.url), "../version?x") == inspection


async def test_an_extender_that_does_not_answer_is_an_error_with_a_next_step():
    with HostileRegistry() as registry:
        url = registry.url
    with pytest.raises(ServiceError, match=rf"cannot reach the extender at {url}: .+") as raised:
        await query_extender(Address(url), None)
    assert raised.value.next_step == "set its URL with --extender, or read from the API server with --from-api"


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [({"error": "there is no node 'x'"}, 404, "there is no node 'x'"), ({}, 503, "HTTP 503")],
)
async def test_what_the_extender_refuses_is_told_in_its_own_words(hostile_registry, answer, body, status, words):
    answer(hostile_registry, "/inspect/x", body, status)
    with pytest.raises(ServiceError, match=f"^{words}$"):
        await query_extender(Address(hostile_registry.url), "x")


@pytest.mark.parametrize("status", [200, 502])
@pytest.mark.parametrize("body", [b"<html>", b'{"nodes": 1}', b""])
async def test_an_answer_of_another_program_is_an_error_that_names_the_url(hostile_registry, answer, body, status):
    answer(hostile_registry, "/inspect", body, status)
    with pytest.raises(ServiceError, match=f"cannot decode the response from {hostile_registry.url}"):
        await query_extender(Address(hostile_registry.url), None)


async def test_an_extender_for_which_nobody_vouches_is_not_trusted(tmp_path, answer, inspection):
    context, _ = serving(tmp_path)
    with HostileRegistry(tls=context) as registry:
        answer(registry, "/inspect", inspection)
        with pytest.raises(ServiceError, match="CERTIFICATE_VERIFY_FAILED"):
            await query_extender(Address(registry.url), None)


async def test_an_extender_may_be_reached_under_another_name_than_its_certificates(tmp_path, answer, inspection):
    context, authority = serving(tmp_path, "extender.accelkit.svc")
    tls = load_tls(authority, None, None)
    with HostileRegistry(tls=context) as registry:
        answer(registry, "/inspect", inspection)
        with pytest.raises(ServiceError, match="CERTIFICATE_VERIFY_FAILED"):
            await query_extender(Address(registry.url, tls), None)
        assert await query_extender(Address(registry.url, tls, "extender.accelkit.svc"), None) == inspection


async def test_a_client_certificate_is_shown_to_an_extender_that_wants_one(tmp_path, answer, inspection):
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


def test_without_files_nothing_is_made_of_them(tmp_path):
    assert load_tls(None, None, None) is None
    assert load_tls(None, None, tmp_path / "key of no certificate") is None


def test_a_client_certificate_alone_leaves_the_authorities_of_the_system(tmp_path):
    pair = Authority("clients of the test").issue_client("reader")
    chain = tmp_path / "client.pem"
    chain.write_bytes(pair.certificate + pair.key)
    context = load_tls(None, chain, None)
    assert context.get_ca_certs() == ssl.create_default_context().get_ca_certs()


@pytest.mark.parametrize(("place", "words"), [(0, ""), (1, ""), (0, ".*No such file")])
def test_a_file_that_is_no_certificate_is_an_error(tmp_path, place, words):
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
def test_only_an_address_of_this_machine_alone_is_its_loopback(url, answer):
    assert is_loopback(url) is answer
