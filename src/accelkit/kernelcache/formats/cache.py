"""A kernel cache as a value: what a folder holds, and for which hardware it was compiled."""

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
    """The hardware that entries of a cache were compiled for; None is unknown everywhere.

    Attributes:
        backend: `cuda`, `hip`, `hpu`…, as the cache's framework names it.
        arch: `75`, `sm_75`, `gfx90a`….
        warp_size: threads that run in step.
        ptx_version: the PTX ISA the kernels need, major and minor as one number (84 is 8.4).
        cuda_version: the CUDA toolkit that compiled them, as `12.9`.
    """

    backend: str
    arch: str | None = None
    warp_size: int | None = None
    ptx_version: int | None = None
    cuda_version: str | None = None


def sort_targets(targets: Iterable[Target]) -> tuple[Target, ...]:
    """Return targets without doubles, in an order of their own."""
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
    """What a cache folder holds.

    Attributes:
        folder: where it was read.
        format: `triton`, `vllm` or `habana`.
        entries: what MCV's manifest lists, in the order of the folder.
        targets: without doubles, sorted; a cache that does not tell its hardware has targets with unknown parts.
        cache_formats: for vLLM, which of `aot_compile`, `binary` and `triton` there are, in this order.
        hashes: for vLLM, the names of its hash folders, in the order of the entries.
        files: every regular file, relative to the folder, sorted.
        size_bytes: of all files.
        launchers: the native libraries among the files, which run on one CPU architecture only.
        cpu_architecture: of the host that built the launchers, in the words of OCI (`amd64`, `arm64`).
        triton_versions: as the kernels' metadata say; newer Triton versions write it, older do not.
        cuda_versions: CUDA toolkits of the frameworks that wrote it.
        secret_names: variables of the framework's recorded environment that look like secrets and are set. The files
            that hold them are part of the cache, so whoever publishes it should know.
        captured_at: for vLLM, the root at which its files say that they lie; empty where they say none.
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
        """Whether it runs on hosts of its own CPU architecture only."""
        return bool(self.launchers)
