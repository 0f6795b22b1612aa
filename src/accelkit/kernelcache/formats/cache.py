"""A kernel cache as a value: the content of its folder, and the hardware for which it was compiled."""

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
    """The hardware for which entries of a cache were compiled; None always means unknown.

    Attributes:
        backend: `cuda`, `hip`, `hpu` and so on, as the framework of the cache names it.
        arch: `75`, `sm_75`, `gfx90a` and so on.
        warp_size: threads per warp.
        ptx_version: the PTX ISA that the kernels need, major and minor as one number (84 is 8.4).
        cuda_version: the CUDA toolkit that compiled them, such as `12.9`.
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
        entries: the entries of MCV's manifest, in the same order as in the folder.
        targets: the targets, sorted and without duplicates; a cache that does not state its hardware has targets with
            unknown parts.
        cache_formats: for vLLM, the formats in the cache: `aot_compile`, `binary` or `triton`, in this order.
        hashes: for vLLM, the names of its hash folders, in the order of the entries.
        files: all regular files, relative to the folder, sorted.
        size_bytes: the size of all files.
        launchers: the native libraries among the files, which are limited to one CPU architecture.
        cpu_architecture: the CPU of the host that built the launchers, in the values of OCI (`amd64`, `arm64`).
        triton_versions: the versions in the metadata of the kernels; old Triton versions do not write them.
        cuda_versions: the CUDA toolkits of the frameworks that wrote the cache.
        secret_names: variables in the framework's recorded environment that look like secrets and are set. The files
            that contain them are part of the cache, so the publisher must be warned.
        captured_at: for vLLM, the root path that its files state; empty if they do not state it.
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
        """Whether the cache only works on hosts with its CPU architecture."""
        return bool(self.launchers)
