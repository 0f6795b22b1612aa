"""When a component of the control plane counts as ready."""

from __future__ import annotations

import ssl
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from fake_api.kubeconfig import write_kubeconfig
from ports import free_port

from accelkit.install.certificates.issuing import Authority
from accelkit.sandbox.control_plane import probe_default_account, probe_http
from accelkit.sandbox.layout import SandboxPaths

ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"


@asynccontextmanager
async def serving(status, path="/readyz"):
    async def answer(_request):
        return web.Response(status=status, text="{}")

    app = web.Application()
    app.router.add_get(path, answer)
    async with TestServer(app, host="127.0.0.1") as server:
        yield server


@asynccontextmanager
async def serving_tls(folder):
    authority = Authority("one")
    pair = authority.issue_server("s", ["127.0.0.1"])
    for name, data in {"ca": authority.certificate, "other": Authority("two").certificate}.items():
        (folder / name).write_bytes(data)
    (folder / "pair").write_bytes(pair.certificate + pair.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "pair")

    async def answer(_request):
        return web.Response()

    app = web.Application()
    app.router.add_get("/readyz", answer)
    server = TestServer(app, host="127.0.0.1", scheme="https")
    await server.start_server(ssl=context)
    try:
        yield str(server.make_url("/readyz"))
    finally:
        await server.close()


@pytest.mark.parametrize(("status", "ready"), [(200, True), (204, False), (500, False)])
async def test_a_component_is_ready_when_it_says_ok(status, ready):
    async with serving(status) as server:
        assert await probe_http(str(server.make_url("/readyz")))() is ready


async def test_one_that_does_not_listen_yet_is_not_ready():
    assert await probe_http(f"http://127.0.0.1:{free_port()}/readyz")() is False


async def test_a_certificate_is_verified_only_where_its_authority_is_known(tmp_path):
    async with serving_tls(tmp_path) as url:
        assert await probe_http(url)() is True
        assert await probe_http(url, tmp_path / "ca")() is True
        assert await probe_http(url, tmp_path / "other")() is False


@pytest.mark.parametrize(("path", "exists"), [(ACCOUNT, True), ("/elsewhere", False)])
async def test_pods_have_an_account_once_the_controllers_have_made_it(tmp_path, path, exists):
    paths = SandboxPaths(tmp_path)
    async with serving(200, path=path) as server:
        kubeconfig = write_kubeconfig(tmp_path, str(server.make_url("")).rstrip("/"))
        kubeconfig.rename(paths.build_kubeconfig_path("admin"))
        assert await probe_default_account(paths)() is exists
