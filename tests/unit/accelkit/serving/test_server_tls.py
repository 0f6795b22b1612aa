import asyncio
import logging
import ssl

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID
from http_service import connected, hello, reconnected, serving
from support.waiting import until

from accelkit.install.certificates.issuing import Authority
from accelkit.serving import server as module

LOOK_SECONDS = 0.01


@pytest.fixture
def pki(pki, monkeypatch):
    monkeypatch.setattr(module, "_CERTIFICATE_SECONDS", LOOK_SECONDS)
    return pki


@pytest.fixture
def errors(caplog):
    """The errors that were logged."""
    caplog.set_level(logging.INFO)
    return lambda: [record.message for record in caplog.records if record.levelno >= logging.ERROR]


async def shown(at, pki):
    """The certificate that a new caller is shown."""
    async with reconnected(at, pki.client()) as connection:
        return connection.certificate


async def served(at, pki, certificate):
    """Wait until new callers are shown a certificate."""
    await until(lambda: shown(at, pki), accept=certificate.__eq__)


@pytest.mark.parametrize("name", ["", "stranger"])
async def test_client_without_certificate_of_client_ca_is_refused(pki, name):
    async with serving(hello, tls=pki.files) as (_, at):
        # With TLS 1.3 the refusal comes after the client's handshake.
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            async with connected(at, pki.client(name)) as connection:
                await connection.ask("GET", "/")
        async with connected(at, pki.client()) as connection:
            assert (await connection.ask("GET", "/"))[0] == 200


@pytest.mark.parametrize(
    ("common", "dns", "status"),
    [
        ("kube-scheduler", (), 200),
        ("other", ("kube-scheduler",), 200),
        ("other", ("kube-scheduler.example",), 403),
        ("Kube-Scheduler", (), 403),
    ],
)
async def test_client_certificate_is_accepted_by_name(pki, caplog, common, dns, status):
    pki.write("client", pki.authority._issue(common, "", ExtendedKeyUsageOID.CLIENT_AUTH, dns))
    async with serving(hello, tls=pki.files) as (_, at):
        for _ in range(3):
            async with connected(at, pki.client()) as connection:
                answered, headers, _ = await connection.ask("POST", "/", b"{}")
                assert answered == status
                assert headers.get("connection") == ("close" if status == 403 else None)
    names = ", ".join(sorted({common, *dns}))
    sentence = f"refused a client certificate with the names {names!r}; --client-name lists the accepted names"
    assert caplog.messages == ([sentence] if status == 403 else [])


async def test_client_without_tls_is_not_served(pki):
    async with serving(hello, tls=pki.files) as (_, at), connected(at) as connection:
        await connection.send("GET", "/")
        assert b"HTTP" not in await connection.reader.read()


@pytest.mark.parametrize(("version", "accepted"), [("TLSv1_1", False), ("TLSv1_2", True), ("TLSv1_3", True)])
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1:DeprecationWarning")
async def test_tls_1_2_is_minimum_version(pki, version, accepted):
    client = pki.client()
    client.set_ciphers("DEFAULT:@SECLEVEL=0")
    client.minimum_version = client.maximum_version = ssl.TLSVersion[version]
    async with serving(hello, tls=pki.files) as (_, at):
        if accepted:
            async with connected(at, client) as connection:
                assert (await connection.ask("GET", "/"))[0] == 200
        else:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await asyncio.open_connection(at.host, at.port, ssl=client)


async def test_changed_server_certificate_is_applied_to_all_connections(pki, errors):
    async with serving(hello, tls=pki.files) as (_, at), connected(at, pki.client()) as former:
        await former.ask("GET", "/")
        for _ in range(2):
            await served(at, pki, pki.issue_server())
        assert await former.closed()
    assert errors() == []


async def test_changed_client_ca_is_applied(pki):
    others = Authority("others")
    async with serving(hello, tls=pki.files) as (_, at), connected(at, pki.client()) as former:
        pki.files.client_ca.write_bytes(others.certificate)
        assert await former.closed()
        pki.write("client", others.issue_client("kube-scheduler"))
        async with reconnected(at, pki.client()) as connection:
            assert (await connection.ask("GET", "/"))[0] == 200


async def test_connections_remain_open_while_certificate_files_are_unchanged(pki):
    async with serving(hello, tls=pki.files) as (_, at), connected(at, pki.client()) as connection:
        for _ in range(10):
            assert (await connection.ask("GET", "/"))[0] == 200
            await asyncio.sleep(LOOK_SECONDS)


async def test_invalid_certificate_files_are_logged_once_and_previous_files_are_used(pki, errors):
    async with serving(hello, tls=pki.files) as (_, at), connected(at, pki.client()) as connection:
        before = connection.certificate
        pki.files.key.write_text("nonsense")
        await until(errors)
        await asyncio.sleep(5 * LOOK_SECONDS)
        (said,) = errors()
        assert said.startswith("cannot reload the certificates, so the previous certificates stay in use: ")
        assert f"cannot use the certificate {pki.files.certificate} with the key" in said
        assert (await connection.ask("GET", "/"))[0] == 200
        assert await shown(at, pki) == before
        await served(at, pki, pki.issue_server())
    assert errors() == [said]


async def test_certificate_files_being_written_are_not_read(pki, errors):
    async with serving(hello, tls=pki.files) as (_, at):
        await shown(at, pki)
        for number in range(30):
            # Five times as often as they are looked at.
            pki.files.certificate.write_text(f"part {number}")
            await asyncio.sleep(LOOK_SECONDS / 5)
        await served(at, pki, pki.issue_server())
    assert errors() == []


async def test_temporarily_missing_key_file_changes_nothing(pki, errors):
    async with serving(hello, tls=pki.files) as (_, at), connected(at, pki.client()) as connection:
        content = pki.files.key.read_bytes()
        pki.files.key.unlink()
        await asyncio.sleep(5 * LOOK_SECONDS)
        pki.files.key.write_bytes(content)
        await asyncio.sleep(5 * LOOK_SECONDS)
        assert (await connection.ask("GET", "/"))[0] == 200
    assert errors() == []


async def test_certificate_watch_ends_with_server(pki, caplog):
    caplog.set_level(logging.INFO)
    async with serving(hello, tls=pki.files) as (_, at):
        await shown(at, pki)
    pki.issue_server()
    await asyncio.sleep(5 * LOOK_SECONDS)
    assert "certificates reloaded" not in caplog.messages
