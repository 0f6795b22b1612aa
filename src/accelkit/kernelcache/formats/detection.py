"""Detects which cache a folder holds. vLLM's is looked for first, since Triton's may lie within it."""

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
    """Read what a cache folder holds.

    Args:
        folder: what the framework names its cache root: `TRITON_CACHE_DIR`, `VLLM_CACHE_ROOT`, Habana's recipe folder.
        cpu_architecture: of the host whose launchers are in it, in the words of OCI (`amd64`, `arm64`).
        built_for: the hardware it was compiled for, used where its files do not say.
        triton_key: what the compiling Triton's `triton_key()` says, where known; only MCV on bare metal compares it.

    Raises:
        CacheError: it holds none of the known caches, a file of it is malformed, or it holds links or devices.
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
            f"{folder} holds no kernel cache that is known: neither {COMPILE_FOLDER}/<hash> with vLLM's compiled"
            " models, nor Triton's <key>/<kernel>.json with a hash, nor Habana's <graph>_<device>_syn<version>.recipe",
            next_step="name the root of the cache, not a folder above or within it",
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
    # Elsewhere than in a folder of the root they are a part of something else, and would not be found in an image.
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
