"""Data model of a kernel cache: the content of its folder, and the hardware for which it was compiled."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from accelkit.kernelcache.formats.entries import Entry

TRITON: Final = "triton"
VLLM: Final = "vllm"
HABANA: Final = "habana"
FORMATS: Final = (TRITON, VLLM, HABANA)


class Target(msgspec.Struct, frozen=True):
    """The hardware for which kernels in a cache were compiled; None always means unknown.

    Attributes:
        backend: the backend, such as `cuda`, `hip` or `hpu`, in the notation of the framework.
        arch: the architecture, such as `75`, `sm_75` or `gfx90a`.
        warp_size: the number of threads per warp.
        ptx_version: the PTX ISA version that the kernels require, as a single number (84 is 8.4).
        cuda_version: the version of the CUDA Toolkit that compiled the kernels, such as `12.9`.
    """

    backend: str
    arch: str | None = None
    warp_size: int | None = None
    ptx_version: int | None = None
    cuda_version: str | None = None


def sort_targets(targets: Iterable[Target]) -> tuple[Target, ...]:
    """Return the targets without duplicates, sorted."""
    return tuple(sorted(set(targets), key=_order))


def _order(target: Target) -> tuple[str, str, int, int, str]:
    return (
        target.backend,
        target.arch or "",
        target.warp_size or 0,
        target.ptx_version or 0,
        target.cuda_version or "",
    )


class Cache(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a cache folder.

    Attributes:
        folder: the folder.
        format: `triton`, `vllm` or `habana`.
        entries: the entries in MCV's manifest, in the same order as in the folder.
        targets: the targets, sorted and without duplicates; fields of a target are None if the files do not contain
            them.
        cache_formats: for vLLM, the formats in the cache: `aot_compile`, `binary` or `triton`, in this order.
        hashes: for vLLM, the names of its hash folders, in the order of the entries.
        files: all regular files, relative to the folder, sorted.
        size_bytes: the size of all files.
        launchers: the native libraries in the cache, which work only on one CPU architecture.
        cpu_architecture: the CPU architecture of the host that built the launchers, with its OCI name (`amd64`,
            `arm64`).
        triton_versions: the Triton versions in the metadata of the kernels; old Triton versions do not write their
            version.
        cuda_versions: the CUDA Toolkit versions of the frameworks that wrote the cache.
        secret_names: the names of the variables in the framework's recorded environment that look like secrets and are
            set. The variables are in the files of the cache, so the publisher must be warned.
        captured_at: for vLLM, the root path in the files of the cache; empty if they do not contain it.
    """

    folder: Path
    format: str
    entries: tuple[Entry, ...]
    targets: tuple[Target, ...]
    files: tuple[str, ...]
    size_bytes: int
    cpu_architecture: str
    cache_formats: tuple[str, ...] = ()
    hashes: tuple[str, ...] = ()
    launchers: tuple[str, ...] = ()
    triton_versions: tuple[str, ...] = ()
    cuda_versions: tuple[str, ...] = ()
    secret_names: tuple[str, ...] = ()
    captured_at: str = ""

    @property
    def has_native_launchers(self) -> bool:
        """Whether the cache works only on hosts with the same CPU architecture."""
        return bool(self.launchers)
