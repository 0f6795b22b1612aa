"""What a cache folder turns out to hold."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from kernel_cache_trees import (
    AOT_HASH,
    VLLM_HASH,
    cuda_kernel,
    habana,
    real_cache,
    triton_kernel,
    vllm_binary,
    vllm_bundle,
    vllm_triton,
    write,
)

from accelkit.errors import CacheError
from accelkit.kernelcache.formats import Cache, Target, read_cache
from accelkit.kernelcache.formats.entries import Kernel, VllmEntry
from accelkit.kernelcache.formats.environment import REDACTED


def _read(folder: Path, **options) -> Cache:
    return read_cache(folder, cpu_architecture="amd64", **options)


def _entry(cache: Cache) -> VllmEntry:
    (entry,) = cache.entries
    assert isinstance(entry, VllmEntry)
    return entry


def test_triton_kernel_metadata_provides_target_and_triton_version(tmp_path: Path) -> None:
    cache = _read(triton_kernel(tmp_path))
    assert (cache.format, len(cache.entries), cache.triton_versions) == ("triton", 1, ("3.2.0",))
    assert cache.targets == (Target("hip", "gfx90a", 64),)


def test_numeric_architecture_is_read_as_text(tmp_path: Path) -> None:
    assert _read(cuda_kernel(tmp_path)).targets == (Target("cuda", "75", 32),)


def test_kernels_of_one_target_are_merged_with_newest_ptx_version(tmp_path: Path) -> None:
    cuda_kernel(tmp_path, key="A", ptx_version=82)
    cuda_kernel(tmp_path, key="B", ptx_version=84)
    cuda_kernel(tmp_path, key="C", ptx_version=None)
    assert _read(tmp_path).targets == (Target("cuda", "75", 32, 84),)


def test_only_json_files_with_hash_are_entries(tmp_path: Path) -> None:
    triton_kernel(tmp_path)
    write(tmp_path / "other" / "settings.json", {"hash": ""})
    write(tmp_path / "other" / "list.json", "[1]")
    write(tmp_path / "other" / "broken.json", "{")
    assert len(_read(tmp_path).entries) == 1


def test_metadata_with_hash_and_without_target_is_rejected(tmp_path: Path) -> None:
    write(tmp_path / "K" / "k.json", {"hash": "abc", "target": None})
    with pytest.raises(CacheError, match=r"K/k\.json has a hash"):
        _read(tmp_path)


def test_files_are_sorted_relative_paths_with_total_size(tmp_path: Path) -> None:
    write(triton_kernel(tmp_path, key="K") / "A" / "b.cubin", b"1234")
    cache = _read(tmp_path)
    assert cache.files == ("A/b.cubin", "K/__grp__add_kernel.json", "K/add_kernel.json", "K/add_kernel.ttir")
    assert cache.size_bytes == sum((tmp_path / path).stat().st_size for path in cache.files)


def test_native_launchers_are_listed(tmp_path: Path) -> None:
    assert not _read(triton_kernel(tmp_path)).has_native_launchers
    write(tmp_path / "L" / "__triton_launcher.so", b"\x7fELF")
    assert _read(tmp_path).launchers == ("L/__triton_launcher.so",)


def test_vllm_cache_is_detected_before_nested_triton_cache(tmp_path: Path) -> None:
    cache = _read(vllm_triton(tmp_path))
    assert (cache.format, cache.cache_formats, cache.hashes) == ("vllm", ("triton",), (VLLM_HASH,))
    assert cache.targets == (Target("hip", "gfx90a", 64),)
    (kernel,) = _entry(cache).triton
    assert isinstance(kernel, Kernel)


def test_rank_folder_name_may_include_device_number(tmp_path: Path) -> None:
    vllm_binary(tmp_path, rank="rank_0_0_dev0")
    vllm_binary(tmp_path, rank="rank_0_0_dev")
    aot = tmp_path / "torch_compile_cache" / "torch_aot_compile" / "d531" / "rank_0_1_dev12" / "model"
    write(aot, b"bundle")
    pieces = [piece for entry in _read(tmp_path).entries for piece in entry.binary]
    assert [piece.rank for piece in pieces] == ["rank_0_0_dev0", "rank_0_1_dev12"]


def test_compiled_artifacts_are_one_binary_entry_per_rank_and_prefix(tmp_path: Path) -> None:
    vllm_binary(tmp_path, rank="rank_1_0")
    entry = _entry(_read(vllm_binary(tmp_path)))
    assert entry.cache_format == "binary"
    assert [(piece.rank, piece.prefix, piece.artifact_count) for piece in entry.binary] == [
        ("rank_0_0", "backbone", 2),
        ("rank_1_0", "backbone", 2),
    ]
    assert entry.binary[0].cache_save_format == "binary"
    assert entry.binary[0].config_hash == "2a3882727d"


def test_artifact_folders_have_unpacked_format(tmp_path: Path) -> None:
    (piece,) = _entry(_read(vllm_binary(tmp_path, unpacked=True))).binary
    assert piece.cache_save_format == "unpacked"


def test_unrecorded_architecture_of_artifacts_is_unknown(tmp_path: Path) -> None:
    assert _read(vllm_binary(tmp_path)).targets == (Target("cuda", None, 32, None, "12.9"),)


def test_built_for_option_sets_target_of_artifacts(tmp_path: Path) -> None:
    cache = _read(vllm_binary(tmp_path), built_for=Target("cuda", "90", 32))
    assert cache.targets == (Target("cuda", "sm_90", 32, None, "12.9"),)


def test_built_for_target_of_another_backend_is_ignored(tmp_path: Path) -> None:
    cache = _read(vllm_binary(tmp_path), built_for=Target("hip", "gfx942", 64))
    assert cache.targets == (Target("cuda", None, 32, None, "12.9"),)


def test_target_of_artifacts_is_read_from_adjacent_kernels(tmp_path: Path) -> None:
    cuda_kernel(vllm_binary(tmp_path) / "torch_compile_cache" / VLLM_HASH / "rank_0_0" / "triton")
    assert _read(tmp_path).targets == (Target("cuda", "sm_75", 32, None, "12.9"),)


def test_rocm_artifacts_use_hip_without_cuda_version(tmp_path: Path) -> None:
    cache = _read(vllm_binary(tmp_path, VLLM_TARGET_DEVICE="rocm"))
    assert (cache.targets, cache.cuda_versions) == ((Target("hip"),), ())


def test_bundled_model_file_is_binary_mega_aot_entry(tmp_path: Path) -> None:
    cache = _read(vllm_bundle(tmp_path))
    (bundle,) = _entry(cache).binary
    assert (cache.cache_formats, cache.hashes, cache.targets) == (("binary",), (AOT_HASH,), ())
    assert (bundle.cache_save_format, bundle.artifact_names) == ("mega-aot", ("model",))


def test_model_folder_is_aot_compile_entry(tmp_path: Path) -> None:
    cache = _read(vllm_bundle(tmp_path, as_folder=True))
    (model,) = _entry(cache).aot_compile
    assert (cache.cache_formats, model.rank, model.file_size) == (("aot_compile",), "rank_0_0", 6)


def test_formats_of_vllm_cache_are_in_mcv_order(tmp_path: Path) -> None:
    triton_kernel(vllm_binary(tmp_path) / "torch_compile_cache" / "0a" / "rank_0_0" / "triton_cache")
    assert _read(vllm_bundle(tmp_path, as_folder=True)).cache_formats == ("aot_compile", "binary", "triton")


def test_recorded_secrets_are_listed_by_name_and_redacted(tmp_path: Path) -> None:
    cache = _read(
        vllm_binary(
            tmp_path,
            VLLM_API_KEY="sk-1",
            HF_TOKEN=None,
            VLLM_CONFIG_ROOT="/home/someone/.config",
            VLLM_TOKEN_THRESHOLD=163840,
            VLLM_NESTED=["http://user:pw@host", "mode"],
        )
    )
    environment = _entry(cache).binary[0].env
    assert cache.secret_names == ("VLLM_API_KEY",)
    assert environment["VLLM_API_KEY"] == REDACTED
    assert environment["VLLM_CONFIG_ROOT"] == REDACTED
    assert environment["VLLM_NESTED"] == [REDACTED, "mode"]
    assert (environment["HF_TOKEN"], environment["VLLM_TOKEN_THRESHOLD"]) == (None, 163840)
    assert environment["VLLM_MAIN_CUDA_VERSION"] == "12.9"


def test_vllm_key_factors_with_invalid_format_are_rejected(tmp_path: Path) -> None:
    factors = vllm_binary(tmp_path) / "torch_compile_cache" / VLLM_HASH / "rank_0_0/backbone/cache_key_factors.json"
    factors.write_text('{"env": 7}')
    with pytest.raises(CacheError, match="does not have the format that vLLM writes"):
        _read(tmp_path)


def test_recipes_are_detected_as_habana_cache(tmp_path: Path) -> None:
    cache = _read(habana(tmp_path))
    assert (cache.format, cache.targets) == ("habana", (Target("hpu"),))
    assert [(recipe.graph_hash, recipe.recipe_size, recipe.metadata_size) for recipe in cache.entries] == [
        ("1234", 6, 2),
        ("99", 6, 0),
    ]


@pytest.mark.parametrize("make", ["empty", "wrong", "missing", "file"])
def test_folder_without_cache_is_rejected_with_next_step(tmp_path: Path, make: str) -> None:
    folder = tmp_path / "cache"
    if make in {"empty", "wrong"}:
        folder.mkdir()
    if make == "wrong":
        write(folder / "torch_compile_cache" / "0a" / "rank_0_0" / "notes.txt", "x")
    if make == "file":
        folder.write_text("")
    with pytest.raises(CacheError, match=r"torch_compile_cache|is not a folder") as caught:
        _read(folder)
    assert caught.value.next_step


@pytest.mark.parametrize("inner", ["torch_compile_cache", f"torch_compile_cache/{VLLM_HASH}/rank_0_0"])
def test_subfolder_of_vllm_cache_is_not_read_as_triton_cache(tmp_path: Path, inner: str) -> None:
    with pytest.raises(CacheError, match="no supported kernel cache"):
        _read(vllm_triton(tmp_path) / inner)


def test_symbolic_link_is_rejected_with_its_path(tmp_path: Path) -> None:
    (triton_kernel(tmp_path) / "K").mkdir()
    (tmp_path / "K" / "passwords").symlink_to("/etc/passwd")
    with pytest.raises(CacheError, match="K/passwords is a symbolic link"):
        _read(tmp_path)


def test_pipe_is_rejected_with_its_path(tmp_path: Path) -> None:
    os.mkfifo(triton_kernel(tmp_path) / "pipe")
    with pytest.raises(CacheError, match="pipe is neither a file nor a folder"):
        _read(tmp_path)


@pytest.mark.parametrize("name", [b"new\nline", b"latin-\xe9"])
def test_file_name_that_is_not_printable_utf8_is_rejected(tmp_path: Path, name: bytes) -> None:
    triton_kernel(tmp_path)
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))).write_bytes(b"")
    with pytest.raises(CacheError, match="not printable UTF-8"):
        _read(tmp_path)


def test_too_deeply_nested_folders_are_rejected(tmp_path: Path) -> None:
    write(triton_kernel(tmp_path) / "/".join("d" * 65) / "file", "")
    with pytest.raises(CacheError, match="nested deeper than 64"):
        _read(tmp_path)


@pytest.mark.parametrize(
    ("name", "cache_format", "entries", "target"),
    [
        ("vector-add-cache", "triton", 1, Target("cuda", "75", 32)),
        ("vector-add-cache-rocm", "triton", 1, Target("hip", "gfx90a", 64)),
        ("vllm-cache", "vllm", 1, Target("hip", "gfx90a", 64)),
    ],
)
def test_caches_written_by_frameworks_are_read(name: str, cache_format: str, entries: int, target: Target) -> None:
    cache = _read(real_cache(name))
    assert (cache.format, len(cache.entries), cache.targets) == (cache_format, entries, (target,))
