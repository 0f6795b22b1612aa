"""Triton's cache: one folder per key, which contains the output of each compilation stage and `<kernel>.json`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from accelkit.decoding import prepare
from accelkit.errors import CacheError
from accelkit.kernelcache.formats.cache import Target, sort_targets
from accelkit.kernelcache.formats.entries import Kernel
from accelkit.kernelcache.formats.relocation.group_files import is_group_file
from accelkit.kernelcache.formats.tree import Tree

# The key that MCV writes if it cannot query Triton, for example because Triton is not installed.
UNKNOWN_TRITON_KEY: Final = "unknown-triton-key"
_DUMMY_SOURCE: Final = "dummy_source_content"


class _Target(msgspec.Struct, frozen=True):
    backend: str
    arch: str | int
    warp_size: int


class _Metadata(msgspec.Struct, frozen=True):
    hash: str
    target: _Target
    num_warps: int = 0
    num_stages: int = 0
    debug: bool = False
    ptx_version: int | None = None
    triton_version: str | None = None


prepare(_Metadata)


class CompiledKernel(msgspec.Struct, frozen=True):
    """A kernel, the path of its metadata, and the Triton version that compiled it (None if it was not recorded)."""

    path: str
    kernel: Kernel
    triton_version: str | None


def read_kernels(tree: Tree, folder: str = "", *, triton_key: str = UNKNOWN_TRITON_KEY) -> Iterator[CompiledKernel]:
    """Yield the kernels with metadata files at any depth in a folder; ignore metadata without a hash.

    Raises:
        CacheError: a file with a hash does not have Triton's metadata format.
    """
    for path in tree.list_files(folder):
        name = path.rsplit("/", 1)[-1]
        if not name.endswith(".json") or is_group_file(name):
            continue
        content = tree.read_metadata(path)
        if content is not None and (metadata := _read_metadata(path, content)) is not None:
            yield CompiledKernel(path, _convert_kernel(metadata, triton_key), metadata.triton_version)


def collect_targets(compiled: Iterable[Kernel]) -> tuple[Target, ...]:
    """Return the targets of kernels, each with the newest PTX ISA version that its kernels require."""
    newest = dict[Target, int]()
    for kernel in compiled:
        target = Target(kernel.backend, str(kernel.arch), kernel.warp_size)
        newest[target] = max(newest.get(target, 0), kernel.ptx_version)
    return sort_targets(msgspec.structs.replace(target, ptx_version=ptx or None) for target, ptx in newest.items())


def compute_dummy_key(kernel: Kernel, *, triton_key: str) -> str:
    """Return the key that MCV uses to compare a kernel with the installed Triton version.

    The key is valid for an environment in which the variables that affect Triton's key are not set.
    """
    target = f"{kernel.backend}-{kernel.arch}-{kernel.warp_size}"
    options: dict[str, Any] = {
        "debug": kernel.debug,
        "num_stages": kernel.num_stages,
        "num_warps": kernel.num_warps,
        "ptx": kernel.ptx_version,
    }
    parts = (_DUMMY_SOURCE, target, msgspec.json.encode(options).decode(), "{}")
    return _hash("-".join((triton_key, *map(_hash, parts))))


def _read_metadata(path: str, content: bytes) -> _Metadata | None:
    try:
        document = msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    if not isinstance(document, dict) or not document.get("hash"):
        return None
    try:
        return msgspec.convert(document, _Metadata)
    except msgspec.ValidationError as exc:
        raise CacheError(f"{path} has a hash, but is not the metadata of a kernel: {exc}") from exc


def _convert_kernel(metadata: _Metadata, triton_key: str) -> Kernel:
    kernel = Kernel(
        hash=metadata.hash,
        ptx_version=metadata.ptx_version or 0,
        num_stages=metadata.num_stages,
        num_warps=metadata.num_warps,
        debug=metadata.debug,
        backend=metadata.target.backend,
        arch=str(metadata.target.arch),
        warp_size=metadata.target.warp_size,
    )
    return msgspec.structs.replace(kernel, dummy_key=compute_dummy_key(kernel, triton_key=triton_key))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
