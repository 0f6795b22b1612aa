"""When a component of the control plane counts as ready."""

import ssl

import pytest
from aiohttp import web
from fake_api.kubeconfig import write_kubeconfig
from ports import free_port
from support.http_servers import serve_http

from accelkit.install.certificates.issuing import Authority
from accelkit.sandbox.control_plane import probe_default_account, probe_http
from accelkit.sandbox.layout import SandboxPaths

ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"


def serving(status, path="/readyz", tls=None):
    async def answer(request):
        return web.Response(status=status if request.path == path else 404, text="{}")

    return serve_http(answer, tls=tls)


@pytest.fixture
def tls(tmp_path):
    authority = Authority("one")
    pair = authority.issue_server("s", ["127.0.0.1"])
    for name, data in {"ca": authority.certificate, "other": Authority("two").certificate}.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "pair").write_bytes(pair.certificate + pair.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "pair")
    return context


@pytest.mark.parametrize(("status", "ready"), [(200, True), (204, False), (500, False)])
async def test_component_is_ready_only_if_readyz_returns_200(status, ready):
    async with serving(status) as url:
        assert await probe_http(str(url / "readyz"))() is ready


async def test_component_that_does_not_listen_is_not_ready():
    assert await probe_http(f"http://127.0.0.1:{free_port()}/readyz")() is False


async def test_certificate_is_verified_only_if_authority_is_given(tmp_path, tls):
    async with serving(200, tls=tls) as url:
        assert await probe_http(str(url / "readyz"))() is True
        assert await probe_http(str(url / "readyz"), tmp_path / "ca")() is True
        assert await probe_http(str(url / "readyz"), tmp_path / "other")() is False


@pytest.mark.parametrize(("path", "exists"), [(ACCOUNT, True), ("/elsewhere", False)])
async def test_default_service_account_probe_succeeds_once_account_exists(tmp_path, path, exists):
    paths = SandboxPaths(tmp_path)
    async with serving(200, path=path) as url:
        kubeconfig = write_kubeconfig(tmp_path, str(url))
        kubeconfig.rename(paths.build_kubeconfig_path("admin"))
        assert await probe_default_account(paths)() is exists
