"""Mounts of a cache in a workload, from KServe's labels on its image, by MCV's rules and some of our own.

They come from whoever built the image and end in a pod's environment and mounts. So a variable has to be one that names
a cache's folder, since one like LD_PRELOAD would run the cache as code, and paths have to be plain.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final, Protocol

import msgspec

from accelkit.errors import CacheError
from accelkit.kernelcache.formats import label_names as names
from accelkit.kernelcache.formats.cache import HABANA, TRITON, VLLM

MAX_EXTRA_MOUNTS: Final = 32
MAX_PATH_BYTES: Final = 4096
_ROOTS: Final = {VLLM: names.VLLM_ROOT, HABANA: names.HABANA_ROOT}
# The folder of vLLM's root in every image.
COMPILE_FOLDER: Final = "torch_compile_cache"
_HABANA_SETTINGS: Final = names.HABANA_ROOT_VALUE.partition(",")[2]
# Where vLLM's Triton compiles to while it runs, unless told; within the root, so that it is captured with it.
_TRITON_WITHIN: Final = "triton"
_FOLDER_VARIABLE: Final = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*_(DIR|ROOT|BASE|HOME)", re.ASCII)

# Of vLLM's formats the one whose files hold no paths.
_RELOCATABLE: Final = "aot_compile"


class Mount(msgspec.Struct, frozen=True):
    """A folder of the payload and where it has to appear.

    Attributes:
        sub_path: relative to `io.<format>.cache`; empty for all of it.
        path: absolute, of that very folder in the container.
        env: the variable to be set to `path`; empty where the framework finds it without.
        writable: whether the framework fails where it cannot write there.
    """

    sub_path: str
    path: str
    env: str = ""
    writable: bool = False


class MountPlan(msgspec.Struct, frozen=True):
    """What a workload needs to find the cache.

    Attributes:
        variable: the name of the framework's root variable.
        value: what it is to be set to: the root's path, and for Habana settings after it.
        mounts: the framework's own root first.
    """

    variable: str
    value: str
    mounts: tuple[Mount, ...]


class ClaimMount(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A mount of a cache's claim in a container, and the variable that tells the framework of it.

    Attributes:
        sub_path: of the claim, whose root is the cache's; empty for all of it.
        path: absolute, in the container.
        variable: to be set to `value`; empty where the framework finds the folder without, or where the image does not
            say which one it is.
        value: mostly `path`; for Habana with settings after it.
        writable: whether the framework fails where it cannot write there.
    """

    sub_path: str
    path: str
    variable: str = ""
    value: str = ""
    writable: bool = False


class CaptureLabels(Protocol):
    """What the labels of an image say of where it was captured; `ImageLabels` has it."""

    @property
    def format(self) -> str:
        """Of the cache."""
        ...

    @property
    def mounts(self) -> MountPlan | None:
        """Where it has to appear in a workload; None where the image does not say."""
        ...


class FormatLabels(CaptureLabels, Protocol):
    """What they say of the files' format beside that."""

    @property
    def cache_formats(self) -> tuple[str, ...]:
        """Of vLLM's caches."""
        ...


class _Extra(msgspec.Struct, rename="camel"):
    sub_path: str
    abs_path: str
    env: str = ""
    requires_writable: bool = False


_extras = msgspec.json.Decoder(list[_Extra])


def read_mount_plan(cache_format: str, labels: Mapping[str, str]) -> MountPlan | None:
    """Read KServe's labels; None where the image has none, as with Triton's caches and older images.

    Raises:
        CacheError: a variable, path or list in them is not what it may be.
    """
    root, text = _ROOTS.get(cache_format), labels.get(names.ROOT_ENV)
    if root is None or text is None:
        return None
    variable, _, value = text.partition("=")
    if variable != root:
        raise CacheError(f"label {names.ROOT_ENV} sets {variable[:80]!r}, and a {cache_format} cache needs {root}")
    # Habana's value goes on with settings after the folder.
    folder = value.partition(",")[0] if cache_format == HABANA else value
    sub_path = _check_sub_path(names.MOUNT_SUBPATH, labels.get(names.MOUNT_SUBPATH, "."))
    path = (
        posixpath.join(_check_path(names.ROOT_ENV, folder), sub_path)
        if sub_path
        else _check_path(names.ROOT_ENV, folder)
    )
    primary = Mount(sub_path, path, writable=cache_format == HABANA)
    extras = _read_extra_mounts(labels.get(names.MOUNTS, ""), sub_path, folder)
    return MountPlan(variable, value, (primary, *extras))


def find_capture_path(labels: CaptureLabels) -> str | None:
    """Return the root at which a cache was captured; None where the image does not say, as with Triton's."""
    plan = labels.mounts
    if plan is None:
        return None
    return plan.value.partition(",")[0] if labels.format == HABANA else plan.value


def list_mounts(labels: CaptureLabels, mount_path: str) -> tuple[ClaimMount, ...]:
    """List the mounts by which a workload finds a cache.

    The root comes first, whole, at `mount_path`: frameworks keep more in it than what the labels name. Trees that were
    captured beside it follow, each at its own path, since their files name it.

    Args:
        labels: of the image.
        mount_path: where workloads see the root, as the cache was extracted for it.
    """
    variable = names.TRITON_ROOT if labels.format == TRITON else _ROOTS.get(labels.format, "")
    value = mount_path
    if labels.format == HABANA:
        settings = labels.mounts.value.partition(",")[2] if labels.mounts is not None else _HABANA_SETTINGS
        value = f"{mount_path},{settings}" if settings else mount_path
    root = ClaimMount("", mount_path, variable, value if variable else "", writable=labels.format == HABANA)
    trees = (
        ClaimMount(each.sub_path, seen, each.env, seen if each.env else "", each.writable)
        for each, seen in list_trees(labels, mount_path)
    )
    return (root, *trees)


def list_trees(labels: CaptureLabels, mount_path: str) -> list[tuple[Mount, str]]:
    """List the trees that were captured beside the root, each with the path at which workloads see it.

    That is where it was captured; one that lay within the root goes where the root goes.
    """
    root = find_capture_path(labels)
    return [
        (each, mount_path + each.path.removeprefix(root) if root and each.path.startswith(f"{root}/") else each.path)
        for each in (labels.mounts.mounts[1:] if labels.mounts is not None else ())
    ]


def translate_sub_path(sub_path: str, capture_path: str, trees: Collection[str]) -> str:
    """Return a folder of a claim, which may be written for MCV's layout, as it is in the layout of images.

    Newer releases of MCV extract the root into a folder that is named as the last part of its path, beside the other
    trees: `vllm/torch_compile_cache`. Here caches lie as in their images, where the root is above all of it.

    Args:
        sub_path: as a pod mounts it.
        capture_path: the root at which the cache was captured; empty where that is not known.
        trees: folders of the trees that were captured beside the root.
    """
    first, _, rest = sub_path.strip("/").partition("/")
    moved = bool(first) and first == posixpath.basename(capture_path)
    taken = {COMPILE_FOLDER, *(each.partition("/")[0] for each in trees)}
    return rest if moved and first not in taken else sub_path


def list_variables(labels: CaptureLabels, mount_path: str) -> dict[str, str]:
    """List the variables of a container that has the mounts of `list_mounts`.

    For vLLM that includes Triton's folder, which vLLM itself leaves in the home folder: where no tree of it was
    captured, it is one within the root, so that what is compiled there is part of the root when that is captured.
    """
    mounts = list_mounts(labels, mount_path)
    variables = {each.variable: each.value for each in mounts if each.variable}
    if labels.format == VLLM:
        variables.setdefault(names.TRITON_ROOT, posixpath.join(mount_path, _TRITON_WITHIN))
    return variables


def is_relocatable(labels: FormatLabels) -> bool:
    """Return whether the files of a cache work at any path as they are; what its labels do not tell does not."""
    return labels.format == HABANA or set(labels.cache_formats) == {_RELOCATABLE}


def _read_extra_mounts(text: str, primary: str, root: str) -> Iterable[Mount]:
    if not text.strip():
        return
    try:
        extras = _extras.decode(text)
    except (msgspec.MsgspecError, RecursionError) as exc:
        raise CacheError(f"label {names.MOUNTS} is not a list of mounts: {exc}") from exc
    if len(extras) > MAX_EXTRA_MOUNTS:
        raise CacheError(f"label {names.MOUNTS} lists {len(extras)} mounts, over the limit of {MAX_EXTRA_MOUNTS}")
    seen = {primary}
    taken = {root}
    for extra in extras:
        sub_path = _check_sub_path(names.MOUNTS, extra.sub_path)
        if not sub_path or sub_path in seen:
            raise CacheError(f"label {names.MOUNTS} mounts {extra.sub_path[:80]!r}, which is empty or mounted already")
        if extra.env and not _FOLDER_VARIABLE.fullmatch(extra.env):
            raise CacheError(f"label {names.MOUNTS} sets {extra.env[:80]!r}, which does not name a cache's folder")
        path = _check_path(names.MOUNTS, extra.abs_path)
        if path in taken:
            raise CacheError(f"label {names.MOUNTS} mounts several folders at {path[:80]!r}")
        seen.add(sub_path)
        taken.add(path)
        yield Mount(sub_path, path, extra.env, extra.requires_writable)


def _check_sub_path(label: str, text: str) -> str:
    """Return a relative path in its plain form, empty for `.`."""
    path = "" if text == "." else text
    if path and not is_plain(path):
        raise CacheError(f"label {label} has the folder {text[:80]!r}, which is not a plain relative path")
    return path


def _check_path(label: str, text: str) -> str:
    if not text.startswith("/") or not is_plain(text[1:]):
        raise CacheError(f"label {label} has the path {text[:80]!r}, which is not a plain absolute path")
    return text


def is_plain(path: str) -> bool:
    """Whether a path without leading slash has nothing but ordinary names in it."""
    if len(path.encode(errors="surrogatepass")) > MAX_PATH_BYTES or not path.isprintable():
        return False
    return not any(name in {"", ".", ".."} for name in path.split("/"))
