"""TLS of the extender: who is served, and what it says where it cannot serve."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from pathlib import Path

import aiohttp
import pytest
from extender_certificates import list_server_options, write_certificates
from extender_process import Process, client_of, world_of
from ports import free_port

from accelkit.sandbox.certificates import Authority
from accelkit.serving.tls import CLIENT_NAME

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    """Certificates of ours and of somebody else, as files."""
    ours, others = Authority("ours"), Authority("others")
    clients = {
        "client": ours.issue_client(CLIENT_NAME),
        "somebody": ours.issue_client("somebody"),
        "stranger": others.issue_client(CLIENT_NAME),
    }
    return write_certificates(tmp_path_factory.mktemp("pki"), ours, clients)


def client_tls(pki, name: str = "") -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=pki / "ca.crt")
    if name:
        context.load_cert_chain(pki / f"{name}.crt", pki / f"{name}.key")
    return context


@pytest.fixture(scope="module")
def process(control_plane, pki, tmp_path_factory):
    probes = free_port()
    arguments = ["--kubeconfig", str(control_plane.kubeconfig), *list_server_options(pki), "--probe-port", str(probes)]
    with Process(tmp_path_factory.mktemp("logs"), *arguments, plain=False) as process:
        process.probe_port = probes
        yield process


@pytest.fixture
async def extender(process, pki):
    async with client_of(process, client_tls(pki, "client")) as client:
        client.pki = pki
        yield client


async def test_client_with_certificate_of_trusted_authority_is_served(extender, control_plane):
    async with world_of(control_plane.kubeconfig) as world:
        node = await world.node(1, 80)
        await extender.shows(node, lambda view: view["state"] == "shared")
        assert await extender.bind(await world.pod(24), node) == ""
        assert await extender.used(node) == 24


async def test_client_certificate_with_unaccepted_name_is_forbidden(extender, pki):
    async with aiohttp.ClientSession() as session:
        for path in ("/inspect", "/bind", "/filter"):
            async with session.post(extender.process.url + path, data=b"{}", ssl=client_tls(pki, "somebody")) as answer:
                assert answer.status == 403
                assert await answer.json() == {"error": "no name of the client certificate is accepted here"}
    said = [line for line in extender.process.log.read_text().splitlines() if "'somebody'" in line]
    assert len(said) == 1
    assert "refused a client certificate with the names 'somebody'" in said[0]


async def test_idle_connections_do_not_block_probes_and_verbs(extender):
    half = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
    with contextlib.ExitStack() as stack:
        probes = extender.process.probe_port
        for port in [probes, extender.process.port] * 300:
            stack.enter_context(socket.create_connection(("127.0.0.1", port))).sendall(half)
        for _ in range(5):
            async with asyncio.timeout(60):
                reader, writer = await asyncio.open_connection("127.0.0.1", probes)
                writer.write(half + b"\r\n")
                assert (await reader.read()).endswith(b"ok\n")
                writer.close()
                await writer.wait_closed()
            async with asyncio.timeout(60), aiohttp.ClientSession() as session:
                url = extender.process.url + "/readyz"
                async with session.get(url, ssl=client_tls(extender.pki, "client")) as answer:
                    assert answer.status == 200


async def test_request_bodies_on_probe_port_use_no_memory(extender):
    def resident():
        fields = Path(f"/proc/{extender.process.process.pid}/statm").read_text().split()
        return int(fields[1]) * os.sysconf("SC_PAGESIZE")

    before, address = resident(), ("127.0.0.1", extender.process.probe_port)
    head = b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 125829120\r\n\r\n"
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            connection = stack.enter_context(socket.create_connection(address, timeout=0.2))
            with contextlib.suppress(ConnectionError, TimeoutError):
                connection.sendall(head + bytes(4 << 20))
        assert resident() - before < 8 << 20
    assert (await extender.readiness())[0] == 200


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--listen", "0.0.0.0:{port}", "--plain-http"], "cannot serve plain HTTP on"),
        (["{server}", "--client-ca", "{pki}/nonsense"], "{pki}/nonsense"),
        (["--listen", "198.51.100.1:{port}", "{server}", "--client-ca", "{pki}/ca.crt"], "cannot listen on 198.51.100"),
        (["--plain-http", "--kubeconfig", "{pki}/nonsense"], "cannot use kubeconfig {pki}/nonsense"),
    ],
)
async def test_invalid_server_option_stops_extender_with_error(control_plane, pki, tmp_path, arguments, sentence):
    (pki / "nonsense").write_text("nonsense")
    server = ["--tls-cert", str(pki / "server.crt"), "--tls-key", str(pki / "server.key")]
    told = [each.format(pki=pki, port=free_port(), server="{server}") for each in arguments]
    told = [word for each in told for word in (server if each == "{server}" else [each])]
    with Process(tmp_path, "--kubeconfig", str(control_plane.kubeconfig), *told, plain=False) as process:
        assert await process.ended() == 1
    said = process.log.read_text().splitlines()
    assert len([line for line in said if line.startswith("Error: ")]) == 1
    assert sentence.format(pki=pki) in said[-1]
    assert not [line for line in said if "Traceback" in line]
