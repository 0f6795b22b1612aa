"""Writer for the labels and `manifest.json` of a cache image, in MCV's format with additional labels."""

from __future__ import annotations

import msgspec

from accelkit.kernelcache.formats import label_names as names
from accelkit.kernelcache.formats.cache import HABANA, VLLM, Cache, Target
from accelkit.kernelcache.formats.entries import MEGA_AOT, VllmEntry
from accelkit.kernelcache.formats.label_reading import MAX_LABEL_BYTES, read_labels
from accelkit.kernelcache.formats.mounts import COMPILE_FOLDER
from accelkit.kernelcache.formats.recorded import collect_variables
from accelkit.kernelcache.formats.vllm import AOT_COMPILE, AOT_FOLDER


def write_labels(cache: Cache, *, title: str, gpu_product: str | None = None) -> dict[str, str]:
    """Return the labels for a cache image, sorted by name.

    Args:
        cache: the cache in the image.
        title: the last part of the repository name.
        gpu_product: the product name of the card on which the cache was compiled, such as `NVIDIA H100 80GB HBM3`.
            Inductor's kernels are found only on cards with the same name, and the files in the cache do not contain
            this name.

    Raises:
        CacheError: `read_labels` would reject the labels, for example because there are too many hash folders.
    """
    written = {
        names.TITLE: title,
        names.build_label_key(cache.format, "entry-count"): str(len(cache.entries)),
        names.build_label_key(cache.format, "summary"): _write_summary(cache.targets),
        names.build_label_key(cache.format, "cache-size-bytes"): str(cache.size_bytes),
    }
    if cache.format == VLLM:
        written |= _write_vllm(cache)
    elif cache.format == HABANA:
        written |= {
            names.FRAMEWORK: HABANA,
            names.CACHE_TYPE: names.HABANA_RECIPE,
            names.MOUNT_SUBPATH: ".",
            names.ROOT_ENV: f"{names.HABANA_ROOT}={names.HABANA_ROOT_VALUE}",
        }
    written |= {
        names.TRITON_VERSIONS: ",".join(cache.triton_versions),
        names.CUDA_VERSIONS: ",".join(cache.cuda_versions),
        names.CPU_ARCHITECTURE: cache.cpu_architecture if cache.has_native_launchers else "",
        names.GPU_PRODUCT: gpu_product or "",
        names.VARIABLES: _write_variables(cache),
    }
    labels = {name: text for name, text in sorted(written.items()) if text}
    read_labels(labels)
    return labels


def write_manifest(cache: Cache) -> bytes:
    """Return the image's `manifest.json`, which lists the entries of the cache."""
    return msgspec.json.format(msgspec.json.encode({cache.format: cache.entries}), indent=2)


def _write_vllm(cache: Cache) -> dict[str, str]:
    return {
        names.build_label_key(VLLM, "format"): ",".join(cache.cache_formats),
        names.FRAMEWORK: VLLM,
        names.CACHE_TYPE: names.TORCH_COMPILE,
        names.CACHE_HASH: ",".join(cache.hashes),
        names.MOUNT_SUBPATH: _choose_subpath(cache),
        names.ROOT_ENV: f"{names.VLLM_ROOT}={cache.captured_at or names.VLLM_ROOT_VALUE}",
    }


def _write_variables(cache: Cache) -> str:
    # A value that exceeds the limit is omitted, because a truncated value would appear complete.
    variables = collect_variables(cache.entries)
    text = msgspec.json.encode(variables).decode() if variables else ""
    return text if len(text.encode()) <= MAX_LABEL_BYTES else ""


def _choose_subpath(cache: Cache) -> str:
    # As in MCV, only the first hash folder is evaluated. After ahead-of-time compilation, no other folder is exposed.
    first = cache.entries[0]
    ahead_of_time = isinstance(first, VllmEntry) and (
        first.cache_format == AOT_COMPILE or any(piece.cache_save_format == MEGA_AOT for piece in first.binary)
    )
    return f"{COMPILE_FOLDER}/{AOT_FOLDER}" if ahead_of_time else COMPILE_FOLDER


class _SummaryTarget(msgspec.Struct, omit_defaults=True):
    backend: str
    arch: str
    warp_size: int
    ptx_version: int = 0
    cuda_version: str = ""


def _write_summary(targets: tuple[Target, ...]) -> str:
    """Return targets in MCV's format, in which empty strings and zeros mean unknown."""
    written = [
        _SummaryTarget(
            target.backend,
            target.arch or "",
            target.warp_size or 0,
            target.ptx_version or 0,
            target.cuda_version or "",
        )
        for target in targets
    ]
    return msgspec.json.encode({"targets": written}).decode()
