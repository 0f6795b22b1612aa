"""Labels of cache images: ours by MCV's rules, and anybody's read with care."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_cache_trees import (
    AOT_HASH,
    VLLM_HASH,
    cuda_kernel,
    habana,
    triton_kernel,
    vllm_binary,
    vllm_bundle,
    vllm_triton,
    write,
)

from accelkit.errors import CacheError
from accelkit.kernelcache.formats import ImageLabels, Target, read_cache, read_labels, write_labels
from accelkit.kernelcache.formats.mounts import Mount, MountPlan

TRITON_SUMMARY = '{"targets":[{"backend":"hip","arch":"gfx90a","warp_size":64}]}'
VLLM = {
    "cache.vllm.image/entry-count": "1",
    "cache.vllm.image/cache-size-bytes": "9",
    "cache.vllm.image/format": "binary",
    "cache.vllm.image/summary": (
        '{"targets":[{"backend":"cuda","arch":"sm_75","warp_size":32,"ptx_version":535,"cuda_version":"12.9"}]}'
    ),
    "io.kserve.km/framework": "vllm",
    "io.kserve.km/cache-type": "torch-compile",
    "io.kserve.km/cache-hash": "d4ec7c2a7d,edf531ca35",
    "io.kserve.km/cache-mount-subpath": "torch_compile_cache",
    "io.kserve.km/cache-root-env": "VLLM_CACHE_ROOT=/tmp/vllm",
}
EXTRA = '[{"subPath":"triton","absPath":"/tmp/triton","env":"TRITON_CACHE_DIR","requiresWritable":true}]'


def _written(folder: Path, **options) -> dict[str, str]:
    return write_labels(read_cache(folder, cpu_architecture="amd64"), title="my-cache", **options)


def test_triton_cache_has_mcv_labels(tmp_path: Path) -> None:
    written = _written(triton_kernel(tmp_path))
    size = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    assert written == {
        "org.opencontainers.image.title": "my-cache",
        "cache.triton.image/entry-count": "1",
        "cache.triton.image/summary": TRITON_SUMMARY,
        "cache.triton.image/cache-size-bytes": str(size),
        "accelkit.io/cache-triton-versions": "3.2.0",
    }
    assert list(written) == sorted(written)


def test_vllm_cache_has_mcv_mount_labels(tmp_path: Path) -> None:
    written = _written(vllm_triton(tmp_path))
    assert {name: text for name, text in written.items() if name.startswith("io.kserve.km/")} == {
        "io.kserve.km/framework": "vllm",
        "io.kserve.km/cache-type": "torch-compile",
        "io.kserve.km/cache-hash": VLLM_HASH,
        "io.kserve.km/cache-mount-subpath": "torch_compile_cache",
        "io.kserve.km/cache-root-env": "VLLM_CACHE_ROOT=/home/kserve/.cache/vllm",
    }
    assert written["cache.vllm.image/format"] == "triton"
    assert written["cache.vllm.image/summary"] == TRITON_SUMMARY


def _group(folder: str, root: str) -> bytes:
    return json.dumps({"child_paths": {"add.json": f"{root}/{folder}/add.json"}}).encode()


INDEX = b"{(None, 0, 'inductor'): ('f', '/home/me/.cache/vllm/torch_compile_cache/h/rank_0_0/inductor_cache/a.py')}"


@pytest.mark.parametrize(
    ("files", "root"),
    [
        ({"K/__grp__add.json": _group("K", "/home/me/.cache/vllm")}, "/home/me/.cache/vllm"),
        ({"torch_compile_cache/h/rank_0_0/vllm_compile_cache.py": INDEX}, "/home/me/.cache/vllm"),
        ({"K/__grp__a.json": _group("K", "/a/vllm"), "L/__grp__b.json": _group("L", "/b/vllm")}, ""),
        ({"K/__grp__add.json": _group("M", "/a/vllm")}, ""),
        ({"K/__grp__add.json": _group("K", "/a/../vllm")}, ""),
        ({"K/__grp__add.json": _group("K", "")}, ""),
        ({"K/__grp__add.json": b'{"child_paths": ["add.json"]}'}, ""),
        ({"K/__grp__add.json": b"{", "torch_compile_cache/h/vllm_compile_cache.py": b"{("}, ""),
    ],
    ids=["group", "index", "disagree", "elsewhere", "not-plain", "root", "names-alone", "malformed"],
)
def test_mount_path_of_vllm_cache_is_derived_from_its_files(tmp_path: Path, files, root: str) -> None:
    vllm_binary(tmp_path)
    write(tmp_path / "torch_compile_cache/h/rank_0_0/inductor_cache/a.py", b"a")
    for name, content in files.items():
        write(tmp_path / name, content)
    written = _written(tmp_path)["io.kserve.km/cache-root-env"]
    assert written == f"VLLM_CACHE_ROOT={root or '/home/kserve/.cache/vllm'}"


def test_unknown_hardware_is_written_in_mcv_format(tmp_path: Path) -> None:
    written = _written(vllm_binary(tmp_path))
    assert written["cache.vllm.image/summary"] == (
        '{"targets":[{"backend":"cuda","arch":"","warp_size":32,"cuda_version":"12.9"}]}'
    )
    assert written["accelkit.io/cache-cuda-versions"] == "12.9"


def test_aot_models_are_mounted_in_aot_subfolder(tmp_path: Path) -> None:
    written = _written(vllm_bundle(tmp_path))
    assert written["io.kserve.km/cache-mount-subpath"] == "torch_compile_cache/torch_aot_compile"
    assert written["io.kserve.km/cache-hash"] == AOT_HASH
    assert written["cache.vllm.image/format"] == "binary"
    assert written["cache.vllm.image/summary"] == '{"targets":[]}'


def test_habana_cache_has_mcv_labels(tmp_path: Path) -> None:
    written = _written(habana(tmp_path))
    assert written["cache.habana.image/entry-count"] == "2"
    assert written["cache.habana.image/summary"] == '{"targets":[{"backend":"hpu","arch":"","warp_size":0}]}'
    assert written["io.kserve.km/cache-type"] == "habana-recipe"
    assert written["io.kserve.km/cache-mount-subpath"] == "."
    assert written["io.kserve.km/cache-root-env"] == (
        "PT_HPU_RECIPE_CACHE_CONFIG=/home/kserve/.cache/habana,false,8192"
    )


def test_cpu_label_is_written_only_for_cache_with_launchers(tmp_path: Path) -> None:
    assert "accelkit.io/cache-cpu-architecture" not in _written(triton_kernel(tmp_path))
    write(tmp_path / "L" / "cuda_utils.so", b"\x7fELF")
    assert _written(tmp_path)["accelkit.io/cache-cpu-architecture"] == "amd64"


@pytest.mark.parametrize("make", [triton_kernel, cuda_kernel, vllm_triton, vllm_binary, vllm_bundle, habana])
def test_written_labels_are_read_back(tmp_path: Path, make) -> None:
    write(make(tmp_path) / "L" / "cuda_utils.so", b"\x7fELF")
    cache = read_cache(tmp_path, cpu_architecture="arm64")
    read = read_labels(write_labels(cache, title="t", gpu_product="NVIDIA H100 80GB HBM3"))
    assert (read.format, read.title, read.entry_count) == (cache.format, "t", len(cache.entries))
    assert (read.targets, read.size_bytes, read.hashes) == (cache.targets, cache.size_bytes, cache.hashes)
    assert (read.cache_formats, read.triton_versions) == (cache.cache_formats, cache.triton_versions)
    assert (read.cuda_versions, read.cpu_architecture) == (cache.cuda_versions, "arm64")
    assert read.gpu_product == "NVIDIA H100 80GB HBM3"


def test_mcv_labels_of_vllm_cache_are_read() -> None:
    read = read_labels(VLLM)
    assert (read.format, read.cache_formats, read.hashes) == ("vllm", ("binary",), ("d4ec7c2a7d", "edf531ca35"))
    assert read.mounts == MountPlan(
        "VLLM_CACHE_ROOT", "/tmp/vllm", (Mount("torch_compile_cache", "/tmp/vllm/torch_compile_cache"),)
    )


def test_driver_version_in_place_of_ptx_version_is_ignored() -> None:
    assert read_labels(VLLM).targets == (Target("cuda", "sm_75", 32, None, "12.9"),)


def test_split_capture_labels_provide_extra_mounts() -> None:
    read = read_labels({**VLLM, "io.kserve.km/cache-mounts": EXTRA, "io.kserve.km/split-cache-capture": "true"})
    assert read.split_capture
    assert read.mounts is not None
    assert read.mounts.mounts[1:] == (Mount("triton", "/tmp/triton", "TRITON_CACHE_DIR", writable=True),)


def test_habana_root_path_excludes_its_settings() -> None:
    read = read_labels(
        {
            "cache.habana.image/summary": '{"targets":[{"backend":"hpu","arch":"","warp_size":0}]}',
            "io.kserve.km/cache-root-env": "PT_HPU_RECIPE_CACHE_CONFIG=/data/recipes,false,4096",
        }
    )
    assert read.mounts == MountPlan(
        "PT_HPU_RECIPE_CACHE_CONFIG", "/data/recipes,false,4096", (Mount("", "/data/recipes", writable=True),)
    )
    assert read.targets == (Target("hpu"),)


def test_null_summary_has_no_targets() -> None:
    assert read_labels({"cache.vllm.image/summary": "null"}).targets == ()


def test_target_is_read_from_single_labels_of_oldest_images() -> None:
    oldest = {"cache.triton.image/backend": "hip", "cache.triton.image/arch": "gfx90a", "cache.triton.image/hash": "x"}
    assert read_labels(oldest) == ImageLabels(format="triton", targets=(Target("hip", "gfx90a"),))


def test_unknown_architecture_of_mcv_is_read_as_none() -> None:
    summary = '{"targets":[{"backend":"hip","arch":"Unknown architecture","warp_size":64}]}'
    assert read_labels({"cache.triton.image/summary": summary}).targets == (Target("hip", None, 64),)


@pytest.mark.parametrize("title", ["t" * 129, "\x1b[31m"])
def test_invalid_title_is_ignored(title: str) -> None:
    assert read_labels({**VLLM, "org.opencontainers.image.title": title}).title == ""


def test_writer_rejects_labels_that_reader_rejects(tmp_path: Path) -> None:
    with pytest.raises(CacheError, match="cache-gpu-product"):
        _written(triton_kernel(tmp_path), gpu_product="H100\n")


def test_unknown_cache_type_keeps_its_name() -> None:
    assert read_labels({"io.kserve.km/cache-type": "jax-persistent"}).format == "jax-persistent"


@pytest.mark.parametrize("type_label", ["vllm", "Torch-Compile"])
def test_cache_type_aliases_are_accepted(type_label: str) -> None:
    assert read_labels({"io.kserve.km/cache-type": type_label}).format == "vllm"


def test_image_without_cache_labels_is_rejected() -> None:
    with pytest.raises(CacheError, match="no labels of a kernel cache"):
        read_labels({"org.opencontainers.image.title": "nginx"})


def _mount(**changes) -> str:
    return json.dumps([{"subPath": "triton", "absPath": "/tmp/triton", **changes}])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cache.vllm.image/entry-count", "-1"),
        ("cache.vllm.image/entry-count", "many"),
        ("cache.vllm.image/cache-size-bytes", "9" * 19),
        ("cache.vllm.image/summary", "{"),
        ("cache.vllm.image/summary", "[" * 50_000),
        ("cache.vllm.image/summary", '{"targets":[{"arch":"75"}]}'),
        ("cache.vllm.image/summary", '{"targets":[{"backend":""}]}'),
        ("cache.vllm.image/summary", '{"targets":[{"backend":"cuda","warp_size":-1}]}'),
        ("cache.vllm.image/summary", '{"targets":[{"backend":"cu\\u0007da"}]}'),
        ("cache.vllm.image/summary", json.dumps({"targets": [{"backend": "cuda"}] * 257})),
        ("cache.vllm.image/summary", " " * 70_000),
        ("io.kserve.km/cache-hash", ",".join("a" * 1025)),
        ("io.kserve.km/cache-hash", "a" * 129),
        ("io.kserve.km/cache-root-env", "LD_PRELOAD=/tmp/vllm"),
        ("io.kserve.km/cache-root-env", "VLLM_CACHE_ROOT"),
        ("io.kserve.km/cache-root-env", "VLLM_CACHE_ROOT=relative"),
        ("io.kserve.km/cache-root-env", "VLLM_CACHE_ROOT=/tmp/../etc"),
        ("io.kserve.km/cache-root-env", "VLLM_CACHE_ROOT=/"),
        ("io.kserve.km/cache-mount-subpath", "../up"),
        ("io.kserve.km/cache-mount-subpath", "/absolute"),
        ("io.kserve.km/cache-mounts", "{}"),
        ("io.kserve.km/cache-mounts", _mount(env="LD_PRELOAD")),
        ("io.kserve.km/cache-mounts", _mount(env="PYTHONHOME")),
        ("io.kserve.km/cache-mounts", _mount(subPath="")),
        ("io.kserve.km/cache-mounts", _mount(subPath=".")),
        ("io.kserve.km/cache-mounts", _mount(subPath="a/../b")),
        ("io.kserve.km/cache-mounts", _mount(subPath="torch_compile_cache")),
        ("io.kserve.km/cache-mounts", _mount(absPath="tmp/triton")),
        ("io.kserve.km/cache-mounts", _mount(absPath="/tmp//triton")),
        ("io.kserve.km/cache-mounts", json.dumps([{"subPath": f"s{n}", "absPath": "/t"} for n in range(33)])),
        ("accelkit.io/cache-gpu-product", "H100\n"),
    ],
)
def test_invalid_label_is_rejected_with_its_name(name: str, text: str) -> None:
    with pytest.raises(CacheError, match=f"label {name}"):
        read_labels({**VLLM, name: text})


@given(st.dictionaries(st.sampled_from([*VLLM, "io.kserve.km/cache-mounts"]), st.text()))
def test_any_label_text_is_parsed_or_rejected(texts: dict[str, str]) -> None:
    try:
        read = read_labels({**VLLM, **texts})
    except CacheError:
        return
    assert read.mounts is None or all(mount.path.startswith("/") for mount in read.mounts.mounts)
