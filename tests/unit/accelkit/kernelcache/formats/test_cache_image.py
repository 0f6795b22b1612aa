"""What an image is, is read from its manifest and labels, without a layer, and refused where it is no cache."""

from __future__ import annotations

import json

import pytest
from hand_made_archives import GZIP
from registries.artifact import Artifact
from registries.hostile import HostileRegistry
from registries.memory import MANIFEST, digest_of
from served_images import LABELS, client_of, image_of, index_of, put

from accelkit.errors import CacheError, RegistryError
from accelkit.kernelcache.formats.cache_image import CacheImage, read_cache_image
from accelkit.kernelcache.oci.platform import read_host_architecture
from accelkit.kernelcache.oci.reference import Reference

LAYER = (b"a layer that nobody reads", GZIP)
UNKNOWN = {"os": "unknown", "architecture": "unknown"}


def for_cpu(architecture: str) -> dict[str, str]:
    return {"os": "linux", "architecture": architecture}


async def read(registry: HostileRegistry, image: Reference) -> CacheImage:
    async with client_of(registry) as client:
        return await read_cache_image(client, image, await client.read_manifest(image))


async def test_reading_cache_image_fetches_no_layer(hostile_registry: HostileRegistry) -> None:
    image = put(hostile_registry, image_of([LAYER]))
    found = await read(hostile_registry, image)
    assert found.reference == image
    assert found.labels.format == "triton"
    assert [each.path.rpartition("/")[2] for each in hostile_registry.requests] == [
        image.digest,
        found.manifest.config.digest,
    ]


@pytest.mark.parametrize(
    ("labels", "cache_format", "arch"),
    [
        (
            {
                "cache.triton.image/entry-count": "1",
                "cache.triton.image/cache-size-bytes": "75579",
                "cache.triton.image/summary": '{"targets":[{"backend":"cuda","arch":"75","warp_size":32}]}',
            },
            "triton",
            "75",
        ),
        (
            {
                "cache.vllm.image/entry-count": "1",
                "cache.vllm.image/format": "binary",
                "cache.vllm.image/summary": '{"targets":[{"backend":"cuda","arch":"sm_90","warp_size":32}]}',
                "io.kserve.km/framework": "vllm",
                "io.kserve.km/cache-type": "torch-compile",
                "io.kserve.km/cache-root-env": "VLLM_CACHE_ROOT=/home/kserve/.cache/vllm",
                "io.kserve.km/cache-mount-subpath": "torch_compile_cache",
                "io.kserve.km/cache-hash": "edf531ca35",
            },
            "vllm",
            "sm_90",
        ),
        ({"cache.habana.image/summary": '{"targets":[{"backend":"hpu","arch":""}]}'}, "habana", None),
        ({"cache.triton.image/backend": "hip", "cache.triton.image/arch": "gfx90a"}, "triton", "gfx90a"),
    ],
    ids=["triton", "vllm", "habana", "oldest"],
)
async def test_mcv_labels_are_read(
    hostile_registry: HostileRegistry, labels: dict[str, str], cache_format: str, arch: str | None
) -> None:
    found = await read(hostile_registry, put(hostile_registry, image_of([LAYER], labels)))
    assert found.labels.format == cache_format
    assert [target.arch for target in found.labels.targets] == [arch]


async def test_single_image_of_index_is_selected_for_any_cpu(hostile_registry: HostileRegistry) -> None:
    only = image_of([LAYER], architecture="s390x")
    put(hostile_registry, only, None)
    index = index_of((only, for_cpu("s390x")), (only, UNKNOWN))
    assert (await read(hostile_registry, put(hostile_registry, index))).reference.digest == only.digest


async def test_image_for_host_cpu_is_selected_from_index(hostile_registry: HostileRegistry) -> None:
    images = [image_of([LAYER], architecture=name) for name in ("s390x", read_host_architecture())]
    for each in images:
        put(hostile_registry, each, None)
    platforms = [for_cpu("s390x"), for_cpu(read_host_architecture())]
    found = await read(hostile_registry, put(hostile_registry, index_of(*zip(images, platforms, strict=True))))
    assert found.reference.digest == images[1].digest
    assert found.config.architecture == read_host_architecture()


@pytest.mark.parametrize("platforms", [[for_cpu("s390x"), for_cpu("ppc64le")], [None, None], []])
async def test_index_without_image_for_host_cpu_is_rejected(
    hostile_registry: HostileRegistry, platforms: list[dict[str, str] | None]
) -> None:
    image = image_of([LAYER])
    put(hostile_registry, image, None)
    index = index_of(*((image, platform) for platform in platforms))
    with pytest.raises(CacheError, match=f"has no image for linux/{read_host_architecture()}"):
        await read(hostile_registry, put(hostile_registry, index))


async def test_nested_index_is_rejected(hostile_registry: HostileRegistry) -> None:
    image = image_of([LAYER])
    inner = index_of((image, None))
    for each in (image, inner):
        put(hostile_registry, each, None)
    with pytest.raises(CacheError, match="is an index of indexes"):
        await read(hostile_registry, put(hostile_registry, index_of((inner, None))))


@pytest.mark.parametrize(
    ("layers", "why"),
    [
        ([], "missing"),
        ([(b"x", "application/vnd.cncf.helm.chart.content.v1.tar+gzip")], "helm"),
        ([LAYER, (b"x", "text/plain")], "text/plain"),
    ],
)
async def test_image_with_missing_or_unsupported_layers_is_rejected(
    hostile_registry: HostileRegistry, layers: list[tuple[bytes, str]], why: str
) -> None:
    with pytest.raises(CacheError, match=rf"is not a cache image: its layers are .*{why}.*; build it with"):
        await read(hostile_registry, put(hostile_registry, image_of(layers)))


@pytest.mark.parametrize("config", [b"not JSON", b"[]", b'{"config": {"Labels": {"a": 1}}}', b"\xff"])
async def test_malformed_image_configuration_is_rejected(hostile_registry: HostileRegistry, config: bytes) -> None:
    with pytest.raises(CacheError, match="cannot decode the configuration"):
        await read(hostile_registry, put(hostile_registry, with_config(config)))


async def test_configuration_over_size_limit_is_not_fetched(hostile_registry: HostileRegistry) -> None:
    image = put(hostile_registry, with_config(b" " * (5 << 20)))
    with pytest.raises(RegistryError, match="at most 4194304 are allowed"):
        await read(hostile_registry, image)
    assert hostile_registry.received("GET", ".*/blobs/.*") == []


def with_config(config: bytes) -> Artifact:
    image = image_of([LAYER])
    document = json.loads(image.manifest)
    document["config"] |= {"digest": digest_of(config), "size": len(config)}
    return Artifact(json.dumps(document).encode(), (config, LAYER[0]), MANIFEST)


async def test_labels_over_size_limit_are_rejected(hostile_registry: HostileRegistry) -> None:
    labels = LABELS | {"cache.triton.image/summary": " " * 70_000}
    with pytest.raises(CacheError, match="is longer than"):
        await read(hostile_registry, put(hostile_registry, image_of([LAYER], labels)))
