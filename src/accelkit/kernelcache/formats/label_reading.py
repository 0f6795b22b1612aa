"""Parser for image labels in MCV's format. All values are limited, because labels are untrusted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from accelkit.errors import CacheError
from accelkit.kernelcache.formats import label_names as names
from accelkit.kernelcache.formats.cache import HABANA, TRITON, VLLM, Target, sort_targets
from accelkit.kernelcache.formats.mounts import MountPlan, read_mount_plan
from accelkit.kernelcache.formats.recorded import Value, read_label

MAX_LABEL_BYTES: Final = 64 * 1024
MAX_TARGETS: Final = 256
MAX_WORDS: Final = 1024
MAX_WORD_CHARACTERS: Final = 128
MAX_WARP_SIZE: Final = 1024
# PTX ISA 1.0 to 19.9. On NVIDIA hosts, MCV writes the major version of the driver (such as 535) to this field, which is
# ignored.
_PTX_VERSIONS: Final = range(10, 200)
_NUMBER: Final = re.compile(r"[0-9]{1,18}", re.ASCII)
_TYPES: Final = {
    "vllm": VLLM,
    names.TORCH_COMPILE: VLLM,
    "habana": HABANA,
    "gaudi": HABANA,
    names.HABANA_RECIPE: HABANA,
    "triton": TRITON,
}


class ImageLabels(msgspec.Struct, frozen=True, kw_only=True):
    """Properties of a cache from the labels of its image; None or an empty value means that the label is missing.

    Attributes:
        format: `triton`, `vllm`, `habana`, or the name of an unsupported format.
        size_bytes: the size of the extracted files.
        targets: the hardware for which the cache was compiled.
        cache_formats: for vLLM, one or more of `aot_compile`, `binary`, `triton` and `unpacked`.
        hashes: the names of the hash folders in vLLM's cache.
        mounts: the paths at which a workload has to mount the cache.
        split_capture: whether the image contains several separate folder trees instead of one root.
        cpu_architecture: the CPU architecture of its native launchers, with its OCI name.
        gpu_product: the product name of the card on which the cache was compiled.
        variables: the environment variables of vLLM at compilation time.
    """

    format: str
    title: str = ""
    entry_count: int | None = None
    size_bytes: int | None = None
    targets: tuple[Target, ...] = ()
    cache_formats: tuple[str, ...] = ()
    hashes: tuple[str, ...] = ()
    mounts: MountPlan | None = None
    split_capture: bool = False
    triton_versions: tuple[str, ...] = ()
    cuda_versions: tuple[str, ...] = ()
    cpu_architecture: str | None = None
    gpu_product: str | None = None
    variables: dict[str, Value] = {}


class _SummaryTarget(msgspec.Struct):
    backend: str
    arch: str | int = ""
    warp_size: int = 0
    ptx_version: int = 0
    cuda_version: str = ""


class _Summary(msgspec.Struct):
    targets: list[_SummaryTarget] | None = None


# MCV writes `null` if there is no target.
_summary = msgspec.json.Decoder(_Summary | None)


def read_labels(labels: Mapping[str, str]) -> ImageLabels:
    """Return the parsed labels of an image's configuration.

    Raises:
        CacheError: the image has no cache labels, or a label is malformed or exceeds a limit.
    """
    cache_labels = {name: text for name, text in labels.items() if _is_cache_label(name)}
    for name, text in cache_labels.items():
        if len(text.encode(errors="surrogatepass")) > MAX_LABEL_BYTES:
            raise CacheError(f"the label {name[:80]} is longer than {MAX_LABEL_BYTES} bytes")
    cache_format = _read_format(cache_labels)
    return ImageLabels(
        format=cache_format,
        title=_read_title(labels.get(names.TITLE, "")),
        entry_count=_read_number(cache_labels, names.build_label_key(cache_format, "entry-count")),
        size_bytes=_read_number(cache_labels, names.build_label_key(cache_format, "cache-size-bytes")),
        targets=_read_targets(cache_labels, cache_format),
        cache_formats=_read_words(cache_labels, names.build_label_key(cache_format, "format")),
        hashes=_read_words(cache_labels, names.CACHE_HASH),
        mounts=read_mount_plan(cache_format, cache_labels),
        split_capture=cache_labels.get(names.SPLIT_CAPTURE) == "true",
        triton_versions=_read_words(cache_labels, names.TRITON_VERSIONS),
        cuda_versions=_read_words(cache_labels, names.CUDA_VERSIONS),
        cpu_architecture=_check_word(names.CPU_ARCHITECTURE, cache_labels.get(names.CPU_ARCHITECTURE, "")) or None,
        gpu_product=_check_word(names.GPU_PRODUCT, cache_labels.get(names.GPU_PRODUCT, "")) or None,
        variables=read_label(cache_labels),
    )


def _is_cache_label(name: str) -> bool:
    return name.startswith(("cache.", "io.kserve.km/", "accelkit.io/cache-"))


def _read_format(labels: Mapping[str, str]) -> str:
    """Return the format in the label `cache-type` or, if it is missing, the format that has a summary label."""
    if named := _check_word(names.CACHE_TYPE, labels.get(names.CACHE_TYPE, "")):
        return _TYPES.get(named.lower(), named)
    for cache_format in (HABANA, VLLM, TRITON):
        # The oldest images have a separate label for the backend of Triton's cache.
        if any(names.build_label_key(cache_format, name) in labels for name in ("summary", "backend")):
            return cache_format
    raise CacheError(
        "the image has no labels of a kernel cache",
        next_step="build it with 'accelkit cache build' or MCV, which write them",
    )


def _read_targets(labels: Mapping[str, str], cache_format: str) -> tuple[Target, ...]:
    name = names.build_label_key(cache_format, "summary")
    if name not in labels:
        return _read_oldest_target(labels, cache_format)
    try:
        summary = _summary.decode(labels[name])
    except (msgspec.MsgspecError, RecursionError) as exc:
        raise CacheError(f"the label {name} is not a list of targets: {exc}") from exc
    found = (summary and summary.targets) or []
    if len(found) > MAX_TARGETS:
        raise CacheError(f"the label {name} lists {len(found)} targets; the limit is {MAX_TARGETS}")
    return sort_targets(_convert_target(name, target) for target in found)


def _read_oldest_target(labels: Mapping[str, str], cache_format: str) -> tuple[Target, ...]:
    values = {
        part: labels.get(names.build_label_key(cache_format, part), "") for part in ("backend", "arch", "warp_size")
    }
    if not values["backend"]:
        return ()
    name = names.build_label_key(cache_format, "backend")
    warp_size = int(values["warp_size"]) if _NUMBER.fullmatch(values["warp_size"]) else 0
    return (_convert_target(name, _SummaryTarget(values["backend"], values["arch"], warp_size)),)


def _convert_target(name: str, target: _SummaryTarget) -> Target:
    if not target.backend or not 0 <= target.warp_size <= MAX_WARP_SIZE:
        raise CacheError(f"the label {name} has a target without a backend, or with a warp size of {target.warp_size}")
    return Target(
        _check_word(name, target.backend),
        _read_architecture(name, str(target.arch)),
        target.warp_size or None,
        target.ptx_version if target.ptx_version in _PTX_VERSIONS else None,
        _check_word(name, target.cuda_version) or None,
    )


def _read_architecture(name: str, text: str) -> str | None:
    # MCV writes "unknown" or "Unknown architecture" for architectures that are missing from its tables.
    return None if not text or text.lower().startswith("unknown") else _check_word(name, text)


def _read_title(text: str) -> str:
    # The title does not describe the cache, so an invalid title does not invalidate the image.
    return text if len(text) <= MAX_WORD_CHARACTERS and text.isprintable() else ""


def _read_number(labels: Mapping[str, str], name: str) -> int | None:
    if (text := labels.get(name)) is None:
        return None
    if not _NUMBER.fullmatch(text):
        raise CacheError(f"the label {name} is {text[:80]!r}, which is not a number")
    return int(text)


def _read_words(labels: Mapping[str, str], name: str) -> tuple[str, ...]:
    words = [word.strip() for word in labels.get(name, "").split(",")]
    if len(words) > MAX_WORDS:
        raise CacheError(f"the label {name} lists {len(words)} values; the limit is {MAX_WORDS}")
    return _check_words(name, words)


def _check_words(name: str, words: Iterable[str]) -> tuple[str, ...]:
    return tuple(_check_word(name, word) for word in words if word)


def _check_word(name: str, text: str) -> str:
    if len(text) > MAX_WORD_CHARACTERS or not text.isprintable():
        raise CacheError(f"the label {name} has {text[:80]!r}, which is too long or not printable")
    return text
