"""Which host answers for a registry: mirrors before it, proxies on the way, and certificates that vouch for it."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from registries import misbehaviour
from registries.hostile import HostileRegistry
from registries.visiting import REPOSITORY, at, image, manifest, visiting

from accelkit.errors import ConfigurationError, RegistryError
from accelkit.kernelcache.oci.reference import Reference
from accelkit.kernelcache.registry import RegistrySettings

MANIFESTS = f"/v2/{REPOSITORY}/manifests/.*"


async def test_plain_http_is_used_only_if_allowed_by_name(registry):
    image(registry, "v1")
    async with visiting(attempts=1) as client:
        with pytest.raises(RegistryError):
            await client.read_manifest(at(registry, "v1"))
    assert registry.requests == []


@pytest.mark.parametrize(
    ("allowed", "registry", "base"),
    [
        ("r.example", "r.example", "http://r.example"),
        ("r.example:5000", "r.example:5000", "http://r.example:5000"),
        # A host without a port is that registry alone, and none on its other ports.
        ("r.example", "r.example:5000", "https://r.example:5000"),
        ("r.example:5000", "r.example", "https://r.example"),
        ("r.example:5000", "r.example:5001", "https://r.example:5001"),
        ("r.example", "a.r.example", "https://a.r.example"),
    ],
)
def test_plain_http_applies_only_to_exact_registry_name(allowed, registry, base):
    settings = RegistrySettings.of_options(plain_http=[allowed], configs=())
    assert settings.find_origin(Reference(registry, REPOSITORY, "v1")).base == base


async def test_proxy_from_environment_is_used(registry, monkeypatch):
    digest = image(registry, "v1")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", registry.url)
    elsewhere = Reference("registry.invalid", REPOSITORY, "v1")
    async with visiting(plain_names=("registry.invalid",)) as client:
        assert (await client.read_manifest(elsewhere)).digest == digest
    assert registry.requests[0].headers["Host"] == "registry.invalid"


async def test_no_proxy_hosts_are_reached_directly(registry, monkeypatch):
    digest = image(registry, "v1")
    monkeypatch.setenv("http_proxy", "http://proxy.invalid:3128")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    async with visiting(registry) as client:
        assert (await client.read_manifest(at(registry, "v1"))).digest == digest


# Certificates


async def test_certificate_of_configured_authority_is_trusted(tls: ssl.SSLContext, ca_file: Path):
    with HostileRegistry(tls=tls) as registry:
        digest = image(registry, "v1")
        async with visiting(ca_file=ca_file) as client:
            assert (await client.read_manifest(at(registry, "v1"))).digest == digest


async def test_untrusted_certificate_is_rejected_without_retry(tls: ssl.SSLContext):
    with HostileRegistry(tls=tls) as registry:
        naps: list[float] = []
        async with visiting(naps=naps) as client:
            with pytest.raises(RegistryError, match="certificate that is not trusted") as refused:
                await client.read_manifest(at(registry, "v1"))
        assert registry.requests == []
    assert naps == []
    assert not refused.value.retryable


@pytest.mark.parametrize("content", [None, "", "no certificate"])
async def test_unusable_ca_file_is_named_in_error(tmp_path, content):
    ca_file = tmp_path / "ca.pem"
    if content is not None:
        ca_file.write_text(content)
    with pytest.raises(ConfigurationError, match=r"ca\.pem"):
        async with visiting(ca_file=ca_file):
            pass


# Mirrors


async def test_mirror_is_requested_before_registry(registry, mirror):
    digest = mirror.put_manifest(f"cache/{REPOSITORY}", "v1", manifest())
    async with visiting(registry, mirror, mirrors={registry.host: (f"{mirror.host}/cache",)}) as client:
        assert (await client.read_manifest(at(registry, "v1"))).digest == digest
    assert registry.requests == []


@pytest.mark.parametrize("trouble", [misbehaviour.failing(404), misbehaviour.failing(503), misbehaviour.changed(b"{}")])
async def test_failing_mirror_is_requested_once_before_registry(registry, trouble, mirror):
    digest = image(registry)
    image(mirror)
    mirror.on("GET", MANIFESTS, trouble)
    naps: list[float] = []
    async with visiting(registry, mirror, naps=naps, mirrors={registry.host: (mirror.host,)}) as client:
        assert (await client.read_manifest(at(registry, digest))).digest == digest
    assert (len(mirror.requests), naps) == (1, [])


async def test_registry_error_is_reported_if_all_mirrors_fail(registry, mirror):
    mirror.on("GET", MANIFESTS, misbehaviour.failing(503))
    async with visiting(registry, mirror, mirrors={registry.host: (mirror.host,)}) as client:
        with pytest.raises(RegistryError) as refused:
            await client.read_manifest(at(registry, "v1"))
    assert (refused.value.status, refused.value.retryable) == (404, False)
    assert f"{mirror.host} returned HTTP 503" in refused.value.message


async def test_mirror_without_image_is_not_mentioned_in_error(registry, mirror):
    async with visiting(registry, mirror, mirrors={registry.host: (mirror.host,)}) as client:
        with pytest.raises(RegistryError) as refused:
            await client.read_manifest(at(registry, "v1"))
    assert mirror.host not in refused.value.message


def test_registry_options_normalize_case_and_docker_hub_aliases():
    settings = RegistrySettings.of_options(
        plain_http=["Registry.Local:5000"], mirrors=["index.docker.io=mirror.example"], configs=()
    )
    assert settings.plain_http == {"registry.local:5000"}
    assert settings.mirrors == {"docker.io": ("mirror.example",)}
