"""The same cache gives the same image, the registry gets it once, and what comes out of it is what went in."""

from __future__ import annotations

import ast
import json
import os
import subprocess
from pathlib import Path
from typing import BinaryIO

import pytest
from kernel_cache_trees import (
    cuda_kernel,
    habana,
    real_cache,
    triton_kernel,
    vllm_binary,
    vllm_bundle,
    vllm_triton,
    write,
)
from registries import misbehaviour
from registries.hostile import HostileRegistry
from served_images import client_of, extract, files_of, unsigned

from accelkit.errors import CacheError, RegistryError
from accelkit.kernelcache.oci.reference import Reference, compute_digest
from accelkit.kernelcache.publishing.build import BuildOptions, BuiltImage, build_image
from accelkit.kernelcache.publishing.layer_writer import Compression

NOWHERE = Reference("registry.test", "team/app", "v1")
TREES = {
    "triton": triton_kernel,
    "cuda": cuda_kernel,
    "vllm triton": vllm_triton,
    "vllm binary": vllm_binary,
    "vllm aot": vllm_bundle,
    "habana": habana,
}
REAL = ["vector-add-cache", "vector-add-cache-rocm", "vllm-cache"]


async def build(
    registry: HostileRegistry, folder: Path, *, tag: str = "v1", recipe: BuildOptions | None = None
) -> BuiltImage:
    async with client_of(registry) as client:
        return await build_image(folder, Reference(registry.host, "team/app", tag), recipe or BuildOptions(), client)


def pushed(registry: HostileRegistry) -> int:
    """How many blobs were sent."""
    return len(registry.received("PUT", ".*/blobs/uploads/.*"))


async def test_build_without_client_pushes_nothing(tmp_path: Path) -> None:
    built = await build_image(triton_kernel(tmp_path), NOWHERE, BuildOptions())
    assert (built.pushed, built.uploaded_bytes) == (False, 0)
    assert built.digest == compute_digest(built.manifest)


async def test_identical_files_give_identical_digest(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    write(first / "A" / "extra", b"1")
    write(first / "B" / "extra", b"2")
    triton_kernel(first)
    before = os.umask(0o077)
    try:
        triton_kernel(second)
        write(second / "B" / "extra", b"2")
        write(second / "A" / "extra", b"1")
    finally:
        os.umask(before)
    for number, path in enumerate(second.rglob("*")):
        os.utime(path, (number, number))
    (second / "A" / "extra").chmod(0o4711)
    assert (await build_image(first, NOWHERE, BuildOptions())).digest == (
        await build_image(second, NOWHERE, BuildOptions())
    ).digest


async def test_additional_file_changes_digest(tmp_path: Path) -> None:
    first, second = triton_kernel(tmp_path / "first"), triton_kernel(tmp_path / "second")
    write(second / "K" / "extra", b"")
    assert (await build_image(first, NOWHERE, BuildOptions())).digest != (
        await build_image(second, NOWHERE, BuildOptions())
    ).digest


async def test_pushed_image_matches_built_image(hostile_registry: HostileRegistry, tmp_path: Path) -> None:
    built = await build(hostile_registry, triton_kernel(tmp_path))
    manifest = hostile_registry.honest.manifest("team/app", "v1")
    assert manifest == built.manifest
    document = json.loads(manifest)
    sizes = [len(hostile_registry.honest.blob("team/app", each["digest"]) or b"") for each in document["layers"]]
    assert sizes == [built.layer.size_bytes]
    config = json.loads(hostile_registry.honest.blob("team/app", document["config"]["digest"]) or b"")
    assert config["config"]["Labels"] == built.labels
    assert built.uploaded_bytes == built.layer.size_bytes + document["config"]["size"]


async def test_second_push_sends_only_manifest(hostile_registry: HostileRegistry, tmp_path: Path) -> None:
    first = await build(hostile_registry, triton_kernel(tmp_path))
    sent = pushed(hostile_registry)
    second = await build(hostile_registry, tmp_path)
    assert (second.digest, second.uploaded_bytes) == (first.digest, 0)
    assert pushed(hostile_registry) == sent == 2


async def test_push_moves_tag_to_new_image(hostile_registry: HostileRegistry, tmp_path: Path) -> None:
    first = await build(hostile_registry, triton_kernel(tmp_path))
    write(tmp_path / "K" / "extra", b"more")
    second = await build(hostile_registry, tmp_path)
    assert hostile_registry.honest.manifest("team/app", "v1") == second.manifest != first.manifest
    assert hostile_registry.honest.manifest("team/app", first.digest) == first.manifest


async def test_failed_push_does_not_move_tag(hostile_registry: HostileRegistry, tmp_path: Path) -> None:
    first = await build(hostile_registry, triton_kernel(tmp_path))
    write(tmp_path / "K" / "extra", b"more")
    hostile_registry.on("POST", ".*/blobs/uploads/", misbehaviour.failing(403))
    with pytest.raises(RegistryError):
        await build(hostile_registry, tmp_path)
    assert hostile_registry.honest.manifest("team/app", "v1") == first.manifest


@pytest.mark.parametrize("tree", TREES)
async def test_built_image_extracts_to_same_files(hostile_registry: HostileRegistry, tmp_path: Path, tree: str) -> None:
    await round_trip(hostile_registry, TREES[tree](tmp_path / "cache"), tmp_path / "out", BuildOptions())


@pytest.mark.parametrize("name", REAL)
async def test_real_cache_extracts_to_same_files(hostile_registry: HostileRegistry, tmp_path: Path, name: str) -> None:
    await round_trip(hostile_registry, real_cache(name), tmp_path / "out", BuildOptions())


@pytest.mark.parametrize("compression", ["gzip", "zstd", "none"])
async def test_each_compression_extracts_to_same_files(
    hostile_registry: HostileRegistry, tmp_path: Path, compression: Compression
) -> None:
    folder = vllm_triton(tmp_path / "cache")
    await round_trip(hostile_registry, folder, tmp_path / "out", BuildOptions(compression=compression))


async def test_image_with_docker_media_types_extracts_to_same_files(
    hostile_registry: HostileRegistry, tmp_path: Path
) -> None:
    built = await round_trip(
        hostile_registry, habana(tmp_path / "cache"), tmp_path / "out", BuildOptions(media="docker")
    )
    types = [built.media_type, *(each["mediaType"] for each in json.loads(built.manifest)["layers"])]
    assert types == [
        "application/vnd.docker.distribution.manifest.v2+json",
        "application/vnd.docker.image.rootfs.diff.tar.gzip",
    ]


async def round_trip(registry: HostileRegistry, folder: Path, out: Path, recipe: BuildOptions) -> BuiltImage:
    """Build, push, extract and compare; files that name others must name those that were extracted."""
    built = await build(registry, folder, recipe=recipe)
    image = Reference(registry.host, "team/app", None, built.digest)
    done = await extract(registry, unsigned(image, out))
    packed, unpacked = files_of(folder), files_of(done.place.cache)
    assert packed.keys() == unpacked.keys()
    for name, content in packed.items():
        if Path(name).name == "vllm_compile_cache.py":
            moved = ast.literal_eval(unpacked[name].decode()).values()
            assert all((done.place.cache / path).exists() and str(done.place.cache) in path for _, path in moved)
            continue
        if not Path(name).name.startswith("__grp__"):
            assert unpacked[name] == content
            continue
        children = json.loads(unpacked[name])["child_paths"]
        beside = (done.place.cache / name).parent
        assert {child: str(beside / child) for child in json.loads(content)["child_paths"]} == children
    assert done.record.size_bytes == sum(map(len, unpacked.values()))
    listing = json.loads((done.place.folder / "manifest.json").read_bytes())
    assert list(listing) == [done.record.format]
    return built


async def test_folder_without_cache_is_rejected(tmp_path: Path) -> None:
    write(tmp_path / "notes.txt", "nothing")
    with pytest.raises(CacheError, match=r"contains no supported kernel cache.*; specify the root of the cache"):
        await build_image(tmp_path, NOWHERE, BuildOptions())


@pytest.mark.parametrize(
    "name", ["back\\slash", ".wh.gone", "d/" * 40 + "deep", "\u202egnp.so", ("n" * 200 + "/") * 6 + "x"]
)
async def test_build_rejects_file_that_extraction_would_reject(tmp_path: Path, name: str) -> None:
    triton_kernel(tmp_path)
    write(tmp_path / name, b"")
    with pytest.raises(CacheError, match=r"cannot build an image|nested deeper"):
        await build_image(tmp_path, NOWHERE, BuildOptions())


async def test_full_disk_during_layer_build_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: str) -> BinaryIO:
        return Path("/dev/full").open("r+b", buffering=0)

    monkeypatch.setattr("accelkit.kernelcache.publishing.build.tempfile.TemporaryFile", full)
    with pytest.raises(CacheError, match="No space left on device; free disk space there, or set TMPDIR"):
        await build_image(triton_kernel(tmp_path), NOWHERE, BuildOptions())


async def test_tar_command_extracts_layer(hostile_registry: HostileRegistry, tmp_path: Path) -> None:
    built = await build(hostile_registry, vllm_binary(tmp_path / "cache"))
    layer = tmp_path / "layer.tar.gz"
    layer.write_bytes(hostile_registry.honest.blob("team/app", built.layer.digest) or b"")
    (tmp_path / "out").mkdir()
    unpack = ["tar", "--extract", "--gzip", f"--file={layer}", f"--directory={tmp_path / 'out'}"]
    subprocess.run(unpack, check=True, timeout=30)
    assert files_of(tmp_path / "out" / "io.vllm.cache") == files_of(tmp_path / "cache")


async def test_image_with_secrets_is_pushed_only_if_allowed(tmp_path: Path, hostile_registry: HostileRegistry) -> None:
    folder = vllm_binary(tmp_path, VLLM_API_KEY="sk-1")
    with pytest.raises(CacheError, match="VLLM_API_KEY"):
        await build(hostile_registry, folder)
    assert hostile_registry.requests == []
    assert (await build(hostile_registry, folder, recipe=BuildOptions(allow_secrets=True))).pushed


async def test_target_reference_with_digest_is_rejected(tmp_path: Path, hostile_registry: HostileRegistry) -> None:
    async with client_of(hostile_registry) as client:
        named = Reference(hostile_registry.host, "team/app", None, compute_digest(b"another"))
        with pytest.raises(CacheError, match="use a tag"):
            await build_image(triton_kernel(tmp_path), named, BuildOptions(), client)
    assert hostile_registry.requests == []
