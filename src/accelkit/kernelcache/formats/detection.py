"""Detection of the cache format in a folder. vLLM is checked first, because its cache may contain a Triton cache."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace

from accelkit.errors import CacheError
from accelkit.kernelcache.formats import habana, triton, vllm
from accelkit.kernelcache.formats.cache import HABANA, TRITON, VLLM, Cache, Target, sort_targets
from accelkit.kernelcache.formats.capture import find_captured_root
from accelkit.kernelcache.formats.mounts import COMPILE_FOLDER
from accelkit.kernelcache.formats.tree import Tree, list_tree


def read_cache(
    folder: Path,
    *,
    cpu_architecture: str,
    built_for: Target | None = None,
    triton_key: str = triton.UNKNOWN_TRITON_KEY,
) -> Cache:
    """Return the cache in a folder.

    Args:
        folder: the cache root of the framework: `TRITON_CACHE_DIR`, `VLLM_CACHE_ROOT`, or Habana's recipe folder.
        cpu_architecture: the CPU architecture of the host that built the launchers, with its OCI name (`amd64`,
            `arm64`).
        built_for: the hardware for which the cache was compiled. It is used if the files do not specify the hardware.
        triton_key: the result of `triton_key()` in the Triton version that compiled the cache, if it is known. Only MCV
            on bare metal compares this key.

    Raises:
        CacheError: the folder contains no supported cache, or contains a malformed file, a symbolic link or a device.
    """
    tree = list_tree(folder)
    files = Cache(
        folder=folder,
        format="",
        entries=(),
        targets=(),
        files=tree.paths,
        size_bytes=sum(tree.sizes.values()),
        launchers=tuple(path for path in tree.paths if path.endswith(".so")),
        cpu_architecture=cpu_architecture,
    )
    cache = (
        _read_vllm(tree, files, triton_key, built_for)
        or _read_triton(tree, files, triton_key)
        or _read_habana(tree, files)
    )
    if cache is None:
        raise CacheError(
            f"{folder} contains no supported kernel cache: neither {COMPILE_FOLDER}/<hash> with vLLM's compiled"
            " models, nor Triton's <key>/<kernel>.json with a hash, nor Habana's <graph>_<device>_syn<version>.recipe",
            next_step="specify the root of the cache, not a folder above or within it",
        )
    return cache


def _read_vllm(tree: Tree, files: Cache, triton_key: str, built_for: Target | None) -> Cache | None:
    if not vllm.is_vllm(tree):
        return None
    found = tuple(vllm.read_hash_folders(tree, triton_key=triton_key, built_for=built_for))
    formats = {finding.entry.cache_format for finding in found}
    return (
        replace(
            files,
            format=VLLM,
            entries=tuple(finding.entry for finding in found),
            targets=sort_targets(target for finding in found for target in finding.targets),
            cache_formats=tuple(name for name in vllm.CACHE_FORMATS if name in formats),
            hashes=_deduplicate(finding.entry.vllm_hash for finding in found),
            triton_versions=_deduplicate(version for finding in found for version in finding.triton_versions),
            cuda_versions=_deduplicate(version for finding in found for version in finding.cuda_versions),
            secret_names=_deduplicate(name for finding in found for name in finding.secret_names),
            captured_at=find_captured_root(tree),
        )
        if found
        else None
    )


def _read_triton(tree: Tree, files: Cache, triton_key: str) -> Cache | None:
    # Only kernels directly in a folder of the root belong to the cache. Triton would not find other kernels.
    everywhere = triton.read_kernels(tree, triton_key=triton_key)
    found = tuple(compiled for compiled in everywhere if compiled.path.count("/") == 1)
    return (
        replace(
            files,
            format=TRITON,
            entries=tuple(compiled.kernel for compiled in found),
            targets=triton.collect_targets(compiled.kernel for compiled in found),
            triton_versions=_deduplicate(compiled.triton_version for compiled in found if compiled.triton_version),
        )
        if found
        else None
    )


def _read_habana(tree: Tree, files: Cache) -> Cache | None:
    found = tuple(habana.read_recipes(tree))
    return replace(files, format=HABANA, entries=found, targets=(habana.TARGET,)) if found else None


def _deduplicate(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))
