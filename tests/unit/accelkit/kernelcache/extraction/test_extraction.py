"""What is extracted, what is asked of the registry for it, and what is refused before a byte of a layer is fetched."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime

import pytest
from hand_made_archives import GZIP, PLAIN, archive, file, packed
from registries import misbehaviour
from registries.memory import MANIFEST
from served_images import (
    DOCKER_MANIFEST,
    HELLO,
    LABELS,
    ImageStand,
    files_of,
    image_of,
    index_of,
)

from accelkit.errors import CacheError, RegistryError
from accelkit.kernelcache.compatibility.node_facts import GpuFacts, NodeFacts
from accelkit.kernelcache.compatibility.verdicts import Fit
from accelkit.kernelcache.extraction import CompletionRecord, Limits, read_completed
from accelkit.kernelcache.oci.platform import read_host_architecture

BLOBS = ".*/blobs/.*"
MI210 = GpuFacts(id="0", backend="hip", arch="gfx90a")
H100 = GpuFacts(id="1", backend="cuda", arch="90")


# What is written


async def test_the_cache_lies_in_a_folder_named_by_its_digest(
    stand: ImageStand,
) -> None:
    layer = archive(file("io.triton.cache/K/k.json", b"{}"), file("io.triton.manifest/manifest.json", b"[]"))
    image = stand.put_layers([layer])
    done = await stand.extract(image)
    assert stand.visible() == [image.digest.replace(":", "-")]
    assert done.fresh
    assert done.place.cache == done.place.folder / "cache"
    found = files_of(stand.base / image.digest.replace(":", "-"))
    assert sorted(found) == ["cache/K/k.json", "complete.json", "manifest.json"]
    assert (found["cache/K/k.json"], found["manifest.json"]) == (b"{}", b"[]")


async def test_the_cache_lies_in_a_folder_named_by_its_digest_with_its_record(stand: ImageStand) -> None:
    image = stand.put_layers([HELLO])
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    done = await stand.extract(image, clock=lambda: at)
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
    done = await stand.extract(image.with_tag("v1"))
    assert done.place.digest == image.digest
    assert done.record.image == f"{image.name}:v1@{image.digest}"


@pytest.mark.parametrize(
    ("manifest_type", "layer_type"),
    [
        (DOCKER_MANIFEST, "application/vnd.docker.image.rootfs.diff.tar.gzip"),
        (MANIFEST, "application/vnd.docker.image.rootfs.diff.tar.gzip"),
        (MANIFEST, "application/cache.triton.content.layer.v1+triton"),
    ],
    ids=["docker", "mixed", "legacy"],
)
async def test_docker_and_legacy_types_are_extracted(stand: ImageStand, manifest_type: str, layer_type: str) -> None:
    image = stand.put(image_of([(gzip.compress(HELLO), layer_type)], media_type=manifest_type))
    done = await stand.extract(image)
    assert files_of(done.place.cache) == {"K/k.json": b"{}"}


async def test_later_layers_lie_over_earlier_ones(stand: ImageStand) -> None:
    layers = [
        archive(*(file(f"io.triton.cache/K/{name}.json", b"%d" % number) for name in names))
        for number, names in enumerate(["abcde", "bcde", "cde", "de", "e"])
    ]
    done = await stand.extract(stand.put_layers(layers))
    assert files_of(done.place.cache) == {f"K/{name}.json": b"%d" % number for number, name in enumerate("abcde")}
    assert done.record.files == 5


@pytest.mark.parametrize("turned", [False, True])
async def test_a_file_in_one_layer_and_a_folder_in_another_are_refused(stand: ImageStand, turned: bool) -> None:
    layers = [archive(file("io.triton.cache/K", b"")), archive(file("io.triton.cache/K/k.json", b""))]
    image = stand.put_layers(layers[::-1] if turned else layers)
    with pytest.raises(CacheError, match="K as a file and as a folder"):
        await stand.extract(image)
    assert stand.visible() == []


async def test_all_layers_together_have_limits_and_one_error(stand: ImageStand) -> None:
    layers = [archive(file(f"io.triton.cache/{number}", bytes(1000))) for number in range(5)]
    image = stand.put_layers(layers)
    with pytest.raises(CacheError, match="more than 4000 bytes"):
        await stand.extract(image, limits=Limits(total_bytes=4000))
    assert stand.visible() == []
    bad = archive(file("../x"))
    with pytest.raises(CacheError, match="leads elsewhere"):
        await stand.extract(stand.put_layers([bad, HELLO, bad]))
    assert stand.visible() == []


async def test_of_an_index_the_image_for_this_cpu_is_taken_and_for_no_other(
    stand: ImageStand, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = [image_of([(packed(archive(file("io.triton.cache/cpu", cpu)), GZIP), GZIP)]) for cpu in (b"own", b"else")]
    for image in images:
        stand.put(image, None)
    unknown = {"os": "unknown", "architecture": "unknown"}
    index = index_of(
        (images[1], {"os": "linux", "architecture": "s390x"}),
        (images[1], unknown),
        (images[0], {"os": "linux", "architecture": read_host_architecture()}),
    )
    named = stand.put(index)
    done = await stand.extract(named)
    assert files_of(done.place.cache) == {"cpu": b"own"}
    assert done.place.digest == index.digest
    member = image_of([(packed(archive(file("io.triton.cache/cpu", b"x")), GZIP), GZIP)])
    stand.put(member, None)
    named = stand.put(index_of((member, {"os": "linux", "architecture": read_host_architecture()})))
    await stand.extract(named)
    monkeypatch.setattr("accelkit.kernelcache.extraction.image.read_host_architecture", lambda: "riscv64")
    with pytest.raises(CacheError, match=r"holds the cache for linux/.* of this image, and this is linux/riscv64"):
        await stand.extract(named)


# What the registry sends


@pytest.mark.parametrize("change", ["other bytes", "longer", "shorter"])
async def test_a_layer_that_is_not_what_the_manifest_says_leaves_nothing(stand: ImageStand, change: str) -> None:
    layer = HELLO + bytes(4096)
    other = archive(file("io.triton.cache/K/k.json", b"[]")) + bytes(4096)
    sent = {"other bytes": other, "longer": layer + bytes(512), "shorter": layer[:-512]}[change]
    image = stand.put(image_of([(layer, PLAIN)]))
    digest = json.loads(stand.registry.honest.manifest("team/app", image.digest) or b"")["layers"][0]["digest"]
    stand.registry.on("GET", f".*/blobs/{digest}", misbehaviour.changed(sent))
    with pytest.raises(RegistryError):
        await stand.extract(image)
    assert stand.visible() == []


@pytest.mark.parametrize("off_by", [-1, 1])
async def test_a_layer_announced_with_another_size_leaves_nothing(stand: ImageStand, off_by: int) -> None:
    image = stand.put(image_of([(HELLO, PLAIN)], sizes=[len(HELLO) + off_by]))
    with pytest.raises((RegistryError, CacheError)):
        await stand.extract(image)
    assert stand.visible() == []


async def test_a_transfer_that_breaks_off_is_resumed(stand: ImageStand) -> None:
    layer = archive(file("io.triton.cache/big", bytes(300_000)))
    image = stand.put(image_of([(layer, PLAIN)]))
    digest = json.loads(stand.registry.honest.manifest("team/app", image.digest) or b"")["layers"][0]["digest"]
    stand.registry.on("GET", f".*/blobs/{digest}", misbehaviour.cut_after(100_000))
    done = await stand.extract(image)
    assert done.record.size_bytes == 300_000
    assert stand.registry.received("GET", f".*/blobs/{digest}")[1].headers["Range"].startswith("bytes=100000-")


# The node's cards


async def test_an_image_that_fits_no_card_is_refused_before_its_layers_are_fetched(stand: ImageStand) -> None:
    image = stand.put_layers([HELLO])
    node = NodeFacts(cpu_architecture="amd64", gpus=(H100,))
    with pytest.raises(CacheError, match="fits none of the cards"):
        await stand.extract(image, node=node)
    assert len(stand.registry.received("GET", BLOBS)) == 1  # the configuration
    assert not stand.base.exists()


@pytest.mark.parametrize(
    ("gpus", "fit"),
    [((MI210,), Fit.ALL), ((MI210, H100), Fit.SOME), (None, Fit.UNKNOWN), ((GpuFacts(id="0"),), Fit.UNKNOWN)],
)
async def test_an_image_that_may_fit_is_extracted(
    stand: ImageStand, gpus: tuple[GpuFacts, ...] | None, fit: Fit
) -> None:
    image = stand.put_layers([HELLO])
    node = NodeFacts(cpu_architecture="amd64", gpus=gpus)
    done = await stand.extract(image, node=node)
    assert done.verdicts.fit is fit


@pytest.mark.parametrize("version", ["v1", ""])
async def test_a_cache_that_is_there_is_judged_for_the_cards_of_whoever_asks(stand: ImageStand, version: str) -> None:
    image = stand.put_layers([HELLO])
    await stand.extract(image)
    again = image.with_tag(version) if version else image
    fits = await stand.extract(again, node=NodeFacts(gpus=(MI210, H100)))
    assert (fits.fresh, fits.verdicts is not None and fits.verdicts.fit) == (False, Fit.SOME)
    with pytest.raises(CacheError, match="fits none of the cards"):
        await stand.extract(again, node=NodeFacts(gpus=(H100,)))
    assert stand.visible() == [fits.place.folder.name]


# What the labels say


async def test_labels_have_to_be_there_and_their_size_holds(stand: ImageStand) -> None:
    with pytest.raises(CacheError, match="no labels of a kernel cache"):
        await stand.extract(stand.put_layers([HELLO], labels={}))
    assert not stand.base.exists()
    labels = LABELS | {"cache.triton.image/cache-size-bytes": "2"}
    image = stand.put_layers([HELLO], labels=labels)
    done = await stand.extract(image, limits=Limits(total_bytes=2))
    assert isinstance(done.record, CompletionRecord)
