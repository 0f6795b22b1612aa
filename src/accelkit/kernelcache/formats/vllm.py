"""The three generations of vLLM's torch.compile cache: `torch_compile_cache/<hash>/rank_<r>_<d>[_dev<n>]/…`.

The oldest generation stores Triton's folders (`triton`). The next generation stores compiled artifacts for each part of
the model (`binary`). Ahead-of-time compilation writes one `model` per rank under `torch_aot_compile/<hash>`. Like MCV,
this module classifies a bundled `model` file as `binary` with the save format `mega-aot`, and only a folder with that
name as `aot_compile`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from accelkit.errors import CacheError
from accelkit.kernelcache.formats import triton
from accelkit.kernelcache.formats.backends import Backend, find_backend
from accelkit.kernelcache.formats.cache import Target, sort_targets
from accelkit.kernelcache.formats.entries import MEGA_AOT, AotModel, BinaryArtifacts, VllmEntry
from accelkit.kernelcache.formats.environment import find_secrets, redact
from accelkit.kernelcache.formats.mounts import COMPILE_FOLDER
from accelkit.kernelcache.formats.tree import Tree

AOT_FOLDER: Final = "torch_aot_compile"
AOT_COMPILE: Final = "aot_compile"
BINARY: Final = "binary"
TRITON: Final = "triton"
# The order in which MCV lists the formats.
CACHE_FORMATS: Final = (AOT_COMPILE, BINARY, TRITON)
_FACTORS: Final = "cache_key_factors.json"
_MODEL: Final = "model"
# Some releases also include the device, because two engines on one host had the same ranks.
_RANK: Final = re.compile(r"rank_\d+_\d+(_dev\d+)?")
_ARTIFACT: Final = "artifact_compile_range_"
# The device that vLLM uses if its environment does not specify a device.
_DEFAULT_DEVICE: Final = "cuda"


class _Factors(msgspec.Struct, frozen=True):
    code_hash: str = ""
    compiler_hash: str = ""
    config_hash: str = ""
    env: dict[str, Any] = {}


_factors = msgspec.json.Decoder(_Factors)


class HashFolder(msgspec.Struct, frozen=True, kw_only=True):
    """A hash folder: its entry in the manifest, and the hardware and versions that its files specify."""

    entry: VllmEntry
    targets: tuple[Target, ...]
    triton_versions: tuple[str, ...] = ()
    cuda_versions: tuple[str, ...] = ()
    secret_names: tuple[str, ...] = ()


def is_vllm(tree: Tree) -> bool:
    """Return whether a tree is the root of a vLLM cache."""
    return COMPILE_FOLDER in tree.list_names("")


def read_hash_folders(tree: Tree, *, triton_key: str, built_for: Target | None) -> Iterator[HashFolder]:
    """Yield the hash folders that have supported content.

    Compiled artifacts specify at most the backend. For the other fields, `built_for` is used.

    Raises:
        CacheError: a file does not have the format that its name implies.
    """
    for name in tree.list_names(COMPILE_FOLDER):
        if name != AOT_FOLDER and (found := _read_compiled(tree, name, triton_key, built_for)) is not None:
            yield found
    for name in tree.list_names(f"{COMPILE_FOLDER}/{AOT_FOLDER}"):
        if (found := _read_ahead_of_time(tree, name, triton_key, built_for)) is not None:
            yield found


def _read_compiled(tree: Tree, name: str, triton_key: str, built_for: Target | None) -> HashFolder | None:
    folder = f"{COMPILE_FOLDER}/{name}"
    pieces = tuple(_read_pieces(tree, folder))
    kernels = tuple(triton.read_kernels(tree, folder, triton_key=triton_key))
    versions = tuple(kernel.triton_version for kernel in kernels if kernel.triton_version)
    compiled = triton.collect_targets(kernel.kernel for kernel in kernels)
    if not pieces:
        entry = VllmEntry(vllm_hash=name, cache_format=TRITON, triton=tuple(kernel.kernel for kernel in kernels))
        return HashFolder(entry=entry, targets=compiled, triton_versions=versions) if kernels else None
    environments = tuple(factors.env for _, factors in pieces)
    return HashFolder(
        entry=VllmEntry(vllm_hash=name, cache_format=BINARY, binary=tuple(piece for piece, _ in pieces)),
        targets=sort_targets(_find_target(env, compiled, built_for) for env in environments),
        triton_versions=versions,
        cuda_versions=tuple(version for env in environments if (version := _read_cuda_version(env))),
        secret_names=tuple(secret for env in environments for secret in find_secrets(env)),
    )


def _read_ahead_of_time(tree: Tree, name: str, triton_key: str, built_for: Target | None) -> HashFolder | None:
    folder = f"{COMPILE_FOLDER}/{AOT_FOLDER}/{name}"
    ranks = [rank for rank in tree.list_names(folder) if _RANK.fullmatch(rank)]
    bundles = tuple(
        BinaryArtifacts(rank=rank, prefix="", artifact_count=1, artifact_names=(_MODEL,), cache_save_format=MEGA_AOT)
        for rank in ranks
        if f"{folder}/{rank}/{_MODEL}" in tree
    )
    models = tuple(
        AotModel(hash=name, rank=rank, model_file=_MODEL, file_size=sum(map(tree.sizes.__getitem__, files)))
        for rank in ranks
        if (files := tree.list_files(f"{folder}/{rank}/{_MODEL}"))
    )
    if bundles:
        entry = VllmEntry(vllm_hash=name, cache_format=BINARY, binary=bundles)
    elif models:
        entry = VllmEntry(vllm_hash=name, cache_format=AOT_COMPILE, aot_compile=models)
    else:
        return None
    kernels = tuple(triton.read_kernels(tree, folder, triton_key=triton_key))
    compiled = triton.collect_targets(kernel.kernel for kernel in kernels)
    versions = tuple(kernel.triton_version for kernel in kernels if kernel.triton_version)
    return HashFolder(entry=entry, targets=compiled or _list_given(built_for), triton_versions=versions)


def _read_pieces(tree: Tree, folder: str) -> Iterator[tuple[BinaryArtifacts, _Factors]]:
    for rank in tree.list_names(folder):
        if not _RANK.fullmatch(rank):
            continue
        for prefix in tree.list_names(f"{folder}/{rank}"):
            part = f"{folder}/{rank}/{prefix}"
            names = tuple(name for name in tree.list_names(part) if name.startswith(_ARTIFACT))
            if names and f"{part}/{_FACTORS}" in tree:
                factors = _read_factors(tree, f"{part}/{_FACTORS}")
                device = factors.env.get("VLLM_TARGET_DEVICE")
                yield (
                    BinaryArtifacts(
                        rank=rank,
                        prefix=prefix,
                        artifact_count=len(names),
                        artifact_names=names,
                        code_hash=factors.code_hash,
                        config_hash=factors.config_hash,
                        compiler_hash=factors.compiler_hash,
                        cache_save_format="binary" if f"{part}/{names[0]}" in tree else "unpacked",
                        target_device=device if isinstance(device, str) else "",
                        env=redact(factors.env),
                    ),
                    factors,
                )


def _read_factors(tree: Tree, path: str) -> _Factors:
    content = tree.read_metadata(path)
    if content is None:
        raise CacheError(f"{path} is too large for the environment that vLLM records")
    try:
        return _factors.decode(content)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as exc:
        raise CacheError(f"{path} does not have the format that vLLM writes: {exc}") from exc


def _find_target(env: dict[str, Any], compiled: tuple[Target, ...], built_for: Target | None) -> Target:
    """Return the target of compiled artifacts.

    If the folder also contains kernels, they specify the complete target. Without kernels, the environment specifies
    only the backend, and `built_for` provides the other fields. If these fields are missing, MCV assumes a T4 or an
    MI100. accelkit treats the architecture as unknown instead.
    """
    backend, cuda_version = _find_device_backend(env), _read_cuda_version(env)
    for known in (*compiled, *_list_given(built_for)):
        if known.backend == backend.name:
            return msgspec.structs.replace(
                known, arch=backend.add_prefix(known.arch), cuda_version=known.cuda_version or cuda_version
            )
    return Target(backend.name, warp_size=backend.find_warp_size(None), cuda_version=cuda_version)


def _find_device_backend(env: dict[str, Any]) -> Backend:
    device = env.get("VLLM_TARGET_DEVICE")
    return find_backend(device if isinstance(device, str) and device else _DEFAULT_DEVICE)


def _read_cuda_version(env: dict[str, Any]) -> str | None:
    version = env.get("VLLM_MAIN_CUDA_VERSION")
    if not _find_device_backend(env).cuda_toolkit or not isinstance(version, str):
        return None
    return version or None


def _list_given(built_for: Target | None) -> tuple[Target, ...]:
    return () if built_for is None else (built_for,)
