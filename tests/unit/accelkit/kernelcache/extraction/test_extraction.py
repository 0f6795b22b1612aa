"""What is extracted, what is asked of the registry for it, and what is refused before a byte of a layer is fetched."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hand_made_archives import GZIP, PLAIN, ZSTD, archive, file, packed
from registries import misbehaviour
from registries.hostile import HostileRegistry
from registries.memory import MANIFEST
from served_images import (
    DOCKER_MANIFEST,
    HELLO,
    LABELS,
    extract,
    files_of,
    image_of,
    index_of,
    put,
    put_layers,
    unsigned,
    visible,
)

from accelkit.errors import CacheError, RegistryError
from accelkit.kernelcache.compatibility.node_facts import GpuFacts, NodeHardware
from accelkit.kernelcache.compatibility.verdicts import Fit
from accelkit.kernelcache.extraction import CompletionRecord, Limits, read_completed
from accelkit.kernelcache.oci.platform import read_host_architecture

BLOBS = ".*/blobs/.*"
MI210 = GpuFacts(id="0", backend="hip", arch="gfx90a")
H100 = GpuFacts(id="1", backend="cuda", arch="90")


# What is written


async def test_cache_is_extracted_into_directory_named_by_its_digest(
    hostile_registry: HostileRegistry, base: Path
) -> None:
    layer = archive(file("io.triton.cache/K/k.json", b"{}"), file("io.triton.manifest/manifest.json", b"[]"))
    image = put_layers(hostile_registry, [layer])
    done = await extract(hostile_registry, unsigned(image, base))
    assert visible(base) == [image.digest.replace(":", "-")]
    assert done.fresh
    assert done.place.cache == done.place.folder / "cache"
    found = files_of(base / image.digest.replace(":", "-"))
    assert sorted(found) == ["cache/K/k.json", "complete.json", "manifest.json"]
    assert (found["cache/K/k.json"], found["manifest.json"]) == (b"{}", b"[]")


async def test_completion_record_describes_the_extracted_files(hostile_registry: HostileRegistry, base: Path) -> None:
    image = put_layers(hostile_registry, [HELLO])
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    done = await extract(hostile_registry, unsigned(image, base, clock=lambda: at))
    document = json.loads((done.place.folder / "complete.json").read_bytes())
    assert {name: document[name] for name in ("image", "format", "files", "size_bytes", "extracted_at", "version")} == {
        "image": str(image),
        "format": "triton",
        "files": 1,
        "size_bytes": 2,
        "extracted_at": "2026-01-02T03:04:05+00:00",
        "version": 1,
    }
    assert read_completed(done.place) == done.record


async def test_image_with_tag_is_extracted_by_digest(hostile_registry: HostileRegistry, base: Path) -> None:
    image = put_layers(hostile_registry, [HELLO])
    done = await extract(hostile_registry, unsigned(image.with_tag("v1"), base))
    assert done.place.digest == image.digest
    assert done.record.image == f"{image.name}:v1@{image.digest}"


@pytest.mark.parametrize("compression", [GZIP, ZSTD, PLAIN])
async def test_layers_of_each_compression_are_extracted(
    hostile_registry: HostileRegistry, base: Path, compression: str
) -> None:
    done = await extract(hostile_registry, unsigned(put_layers(hostile_registry, [HELLO], compression), base))
    assert files_of(done.place.cache) == {"K/k.json": b"{}"}


@pytest.mark.parametrize(
    ("manifest_type", "layer_type"),
    [
        (DOCKER_MANIFEST, "application/vnd.docker.image.rootfs.diff.tar.gzip"),
        (MANIFEST, "application/vnd.docker.image.rootfs.diff.tar.gzip"),
        (MANIFEST, "application/cache.triton.content.layer.v1+triton"),
    ],
    ids=["docker", "mixed", "legacy"],
)
async def test_docker_and_legacy_media_types_are_extracted(
    hostile_registry: HostileRegistry, base: Path, manifest_type: str, layer_type: str
) -> None:
    image = put(hostile_registry, image_of([(gzip.compress(HELLO), layer_type)], media_type=manifest_type))
    done = await extract(hostile_registry, unsigned(image, base))
    assert files_of(done.place.cache) == {"K/k.json": b"{}"}


async def test_later_layers_override_earlier_layers(hostile_registry: HostileRegistry, base: Path) -> None:
    layers = [
        archive(*(file(f"io.triton.cache/K/{name}.json", b"%d" % number) for name in names))
        for number, names in enumerate(["abcde", "bcde", "cde", "de", "e"])
    ]
    done = await extract(hostile_registry, unsigned(put_layers(hostile_registry, layers), base))
    assert files_of(done.place.cache) == {f"K/{name}.json": b"%d" % number for number, name in enumerate("abcde")}
    assert done.record.files == 5


@pytest.mark.parametrize("turned", [False, True])
async def test_file_and_directory_of_one_name_in_two_layers_are_refused(
    hostile_registry: HostileRegistry, base: Path, turned: bool
) -> None:
    layers = [archive(file("io.triton.cache/K", b"")), archive(file("io.triton.cache/K/k.json", b""))]
    image = put_layers(hostile_registry, layers[::-1] if turned else layers)
    with pytest.raises(CacheError, match="K both as a file and as a folder"):
        await extract(hostile_registry, unsigned(image, base))
    assert visible(base) == []


async def test_limits_apply_to_all_layers_together(hostile_registry: HostileRegistry, base: Path) -> None:
    layers = [archive(file(f"io.triton.cache/{number}", bytes(1000))) for number in range(5)]
    image = put_layers(hostile_registry, layers)
    with pytest.raises(CacheError, match="more than 4000 bytes"):
        await extract(hostile_registry, unsigned(image, base, limits=Limits(total_bytes=4000)))
    assert visible(base) == []


async def test_index_selects_the_image_for_the_host_architecture(hostile_registry: HostileRegistry, base: Path) -> None:
    images = [image_of([(packed(archive(file("io.triton.cache/cpu", cpu)), GZIP), GZIP)]) for cpu in (b"own", b"else")]
    for image in images:
        put(hostile_registry, image, None)
    unknown = {"os": "unknown", "architecture": "unknown"}
    index = index_of(
        (images[1], {"os": "linux", "architecture": "s390x"}),
        (images[1], unknown),
        (images[0], {"os": "linux", "architecture": read_host_architecture()}),
    )
    named = put(hostile_registry, index)
    done = await extract(hostile_registry, unsigned(named, base))
    assert files_of(done.place.cache) == {"cpu": b"own"}
    assert done.place.digest == index.digest


async def test_index_image_for_another_architecture_is_refused(
    hostile_registry: HostileRegistry, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = image_of([(packed(archive(file("io.triton.cache/cpu", b"x")), GZIP), GZIP)])
    put(hostile_registry, member, None)
    named = put(hostile_registry, index_of((member, {"os": "linux", "architecture": read_host_architecture()})))
    await extract(hostile_registry, unsigned(named, base))
    monkeypatch.setattr("accelkit.kernelcache.extraction.image.read_host_architecture", lambda: "riscv64")
    with pytest.raises(CacheError, match=r"this image for linux/.*, but this host is linux/riscv64"):
        await extract(hostile_registry, unsigned(named, base))


# What the registry sends


@pytest.mark.parametrize("change", ["other bytes", "longer", "shorter"])
async def test_layer_that_does_not_match_the_manifest_leaves_no_files(
    hostile_registry: HostileRegistry, base: Path, change: str
) -> None:
    layer = HELLO + bytes(4096)
    other = archive(file("io.triton.cache/K/k.json", b"[]")) + bytes(4096)
    sent = {"other bytes": other, "longer": layer + bytes(512), "shorter": layer[:-512]}[change]
    image = put(hostile_registry, image_of([(layer, PLAIN)]))
    digest = json.loads(hostile_registry.honest.manifest("team/app", image.digest) or b"")["layers"][0]["digest"]
    hostile_registry.on("GET", f".*/blobs/{digest}", misbehaviour.changed(sent))
    with pytest.raises(RegistryError):
        await extract(hostile_registry, unsigned(image, base))
    assert visible(base) == []


@pytest.mark.parametrize("off_by", [-1, 1])
async def test_layer_with_wrong_declared_size_leaves_no_files(
    hostile_registry: HostileRegistry, base: Path, off_by: int
) -> None:
    image = put(hostile_registry, image_of([(HELLO, PLAIN)], sizes=[len(HELLO) + off_by]))
    with pytest.raises((RegistryError, CacheError)):
        await extract(hostile_registry, unsigned(image, base))
    assert visible(base) == []


async def test_interrupted_transfer_is_resumed(hostile_registry: HostileRegistry, base: Path) -> None:
    layer = archive(file("io.triton.cache/big", bytes(300_000)))
    image = put(hostile_registry, image_of([(layer, PLAIN)]))
    digest = json.loads(hostile_registry.honest.manifest("team/app", image.digest) or b"")["layers"][0]["digest"]
    hostile_registry.on("GET", f".*/blobs/{digest}", misbehaviour.cut_after(100_000))
    done = await extract(hostile_registry, unsigned(image, base))
    assert done.record.size_bytes == 300_000
    assert hostile_registry.received("GET", f".*/blobs/{digest}")[1].headers["Range"].startswith("bytes=100000-")


async def test_several_failing_layers_raise_one_error(hostile_registry: HostileRegistry, base: Path) -> None:
    bad = archive(file("../x"))
    with pytest.raises(CacheError, match="points outside the archive"):
        await extract(hostile_registry, unsigned(put_layers(hostile_registry, [bad, HELLO, bad]), base))
    assert visible(base) == []


# The node's cards


async def test_incompatible_image_is_refused_before_layer_download(
    hostile_registry: HostileRegistry, base: Path
) -> None:
    image = put_layers(hostile_registry, [HELLO])
    node = NodeHardware(cpu_architecture="amd64", gpus=(H100,))
    with pytest.raises(CacheError, match="fits none of the cards"):
        await extract(hostile_registry, unsigned(image, base, node=node))
    assert len(hostile_registry.received("GET", BLOBS)) == 1  # the configuration
    assert not base.exists()


@pytest.mark.parametrize(
    ("gpus", "fit"),
    [((MI210,), Fit.ALL), ((MI210, H100), Fit.SOME), (None, Fit.UNKNOWN), ((GpuFacts(id="0"),), Fit.UNKNOWN)],
)
async def test_possibly_compatible_image_is_extracted(
    hostile_registry: HostileRegistry, base: Path, gpus: tuple[GpuFacts, ...] | None, fit: Fit
) -> None:
    image = put_layers(hostile_registry, [HELLO])
    node = NodeHardware(cpu_architecture="amd64", gpus=gpus)
    done = await extract(hostile_registry, unsigned(image, base, node=node))
    assert done.verdicts is not None
    assert done.verdicts.fit is fit


@pytest.mark.parametrize("version", ["v1", ""])
async def test_extracted_cache_is_judged_again_for_the_given_cards(
    hostile_registry: HostileRegistry, base: Path, version: str
) -> None:
    image = put_layers(hostile_registry, [HELLO])
    await extract(hostile_registry, unsigned(image, base))
    again = image.with_tag(version) if version else image
    fits = await extract(hostile_registry, unsigned(again, base, node=NodeHardware(gpus=(MI210, H100))))
    assert (fits.fresh, fits.verdicts is not None and fits.verdicts.fit) == (False, Fit.SOME)
    with pytest.raises(CacheError, match="fits none of the cards"):
        await extract(hostile_registry, unsigned(again, base, node=NodeHardware(gpus=(H100,))))
    assert visible(base) == [fits.place.folder.name]


# What the labels say


async def test_image_without_cache_labels_is_refused(hostile_registry: HostileRegistry, base: Path) -> None:
    with pytest.raises(CacheError, match="no labels of a kernel cache"):
        await extract(hostile_registry, unsigned(put_layers(hostile_registry, [HELLO], labels={}), base))
    assert not base.exists()


async def test_size_limit_equal_to_the_size_label_is_sufficient(hostile_registry: HostileRegistry, base: Path) -> None:
    labels = LABELS | {"cache.triton.image/cache-size-bytes": "2"}
    image = put_layers(hostile_registry, [HELLO], labels=labels)
    done = await extract(hostile_registry, unsigned(image, base, limits=Limits(total_bytes=2)))
    assert isinstance(done.record, CompletionRecord)
