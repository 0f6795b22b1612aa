"""Times of files: ninja's trees keep theirs through an image, so that it builds nothing of them anew."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import time
from pathlib import Path

import pytest
from hand_made_archives import archive, extended, file
from kernel_cache_trees import vllm_bundle, write
from registries.hostile import HostileRegistry
from served_images import client_of, extract, put_layers, unsigned

from accelkit.kernelcache.formats import read_cache
from accelkit.kernelcache.oci.reference import Reference
from accelkit.kernelcache.publishing.build import BuildOptions, build_image
from accelkit.kernelcache.publishing.layer_writer import write_layer

GENERATED = "flashinfer/0.2/90/generated/op/op.cu"
OUTPUT = "flashinfer/0.2/90/cached_ops/op/op.so"
LOG = "flashinfer/0.2/90/cached_ops/op/.ninja_log"
# The sources of FlashInfer itself lie in the workload's image, and are older than what is built of them.
BUILT = 1_750_000_000


def flashinfer(folder: Path) -> Path:
    vllm_bundle(folder)
    for number, path in enumerate((GENERATED, OUTPUT, LOG)):
        write(folder / path, path)
        nanoseconds = (BUILT + number) * 1_000_000_000 + 999_999_999
        os.utime(folder / path, ns=(nanoseconds, nanoseconds))
    return folder


def pack(folder: Path) -> bytes:
    out = io.BytesIO()
    write_layer(read_cache(folder, cpu_architecture="amd64"), folder, out, compression="none")
    return out.getvalue()


def times(packed: bytes) -> dict[str, float]:
    with tarfile.open(fileobj=io.BytesIO(packed)) as members:
        return {each.name.removeprefix("io.vllm.cache/"): each.mtime for each in members if each.isfile()}


def test_ninja_trees_keep_file_times_and_other_files_have_none(tmp_path: Path) -> None:
    packed = times(pack(flashinfer(tmp_path)))
    assert {path: packed.pop(path) for path in (GENERATED, OUTPUT, LOG)} == {
        GENERATED: BUILT,
        OUTPUT: BUILT + 1,
        LOG: BUILT + 2,
    }
    assert set(packed.values()) == {0}


def test_file_times_are_zero_without_ninja_log(tmp_path: Path) -> None:
    (flashinfer(tmp_path) / LOG).unlink()
    assert set(times(pack(tmp_path)).values()) == {0}


async def test_ninja_file_times_are_kept_after_push_and_extraction(
    hostile_registry: HostileRegistry, tmp_path: Path
) -> None:
    folder = flashinfer(tmp_path / "cache")
    reference = Reference(hostile_registry.host, "team/app", "v1")
    async with client_of(hostile_registry) as client:
        built = await build_image(folder, reference, BuildOptions(), client)
    done = await extract(hostile_registry, unsigned(reference.with_digest(built.digest), tmp_path / "out"))
    seen = {path: (done.place.cache / path).stat().st_mtime_ns for path in (GENERATED, OUTPUT, LOG)}
    # Not younger than the log says, which has them to the nanosecond, and in the same order.
    assert seen == {path: (BUILT + number) * 1_000_000_000 for number, path in enumerate(seen)}


@pytest.mark.skipif(shutil.which("ninja") is None, reason="ninja is not on PATH")
async def test_ninja_has_no_work_to_do_after_extraction(hostile_registry: HostileRegistry, tmp_path: Path) -> None:
    header = tmp_path / "site-packages" / "flashinfer.h"
    write(header, "older than all")
    os.utime(header, (BUILT, BUILT))
    folder = flashinfer(tmp_path / "cache")
    part = (folder / OUTPUT).parent
    write(
        part / "build.ninja",
        f"rule cc\n  command = cat $in > $out && echo '$out: $in {header}' > $out.d\n  deps = gcc\n  depfile = $out.d\n"
        "build op.so: cc ../../generated/op/op.cu\n",
    )
    (folder / LOG).unlink()
    (folder / OUTPUT).unlink()
    assert "no work" not in ninja(part)
    assert "no work" in ninja(part, "-n")
    reference = Reference(hostile_registry.host, "team/app", "v1")
    async with client_of(hostile_registry) as client:
        built = await build_image(folder, reference, BuildOptions(), client)
    done = await extract(hostile_registry, unsigned(reference.with_digest(built.digest), tmp_path / "out"))
    extracted = (done.place.cache / OUTPUT).parent
    assert "no work" in ninja(extracted, "-n")
    # As it would be without the times.
    os.utime(extracted / "op.so")
    assert "no work" not in ninja(extracted, "-n")


def ninja(folder: Path, *options: str) -> str:
    done = subprocess.run(["ninja", "-C", folder, *options], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout


@pytest.mark.parametrize(
    ("said", "taken"), [("1700000000.75", 1_700_000_000), ("0", None), ("-5", None), ("99999999999", None), ("x", None)]
)
async def test_invalid_file_time_is_replaced_by_extraction_time(
    hostile_registry: HostileRegistry, tmp_path: Path, said: str, taken: int | None
) -> None:
    began = int(time.time()) - 1
    layer = archive(extended({"mtime": said}), file("io.triton.cache/K/k.json", b"{}"))
    done = await extract(hostile_registry, unsigned(put_layers(hostile_registry, [layer]), tmp_path / "out"))
    seen = (done.place.cache / "K/k.json").stat().st_mtime
    assert seen == taken if taken is not None else began <= seen <= time.time() + 1
