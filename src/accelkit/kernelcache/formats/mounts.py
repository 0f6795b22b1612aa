"""The mounts that a workload needs to use a cache, derived from KServe's image labels by the rules of MCV and accelkit.

The builder of the image writes the labels, and their values become environment variables and mounts of a pod.
Therefore, paths must consist only of ordinary names, and only variables for cache folders are accepted. For example,
the variable LD_PRELOAD would cause code from the cache to be executed.
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
# The folder for vLLM's root in all images.
COMPILE_FOLDER: Final = "torch_compile_cache"
_HABANA_SETTINGS: Final = names.HABANA_ROOT_VALUE.partition(",")[2]
# The default folder for kernels that vLLM's Triton compiles at run time. The folder is in the root, so it is also
# captured.
_TRITON_WITHIN: Final = "triton"
_FOLDER_VARIABLE: Final = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*_(DIR|ROOT|BASE|HOME)", re.ASCII)

# The only vLLM cache format whose files do not contain paths.
_RELOCATABLE: Final = "aot_compile"


class Mount(msgspec.Struct, frozen=True):
    """A folder of the payload and its path in the container.

    Attributes:
        sub_path: the folder relative to `io.<format>.cache`; empty for the whole cache.
        path: the absolute path of that folder in the container.
        env: the name of the variable to set to `path`; empty if the framework finds the folder without a variable.
        writable: whether the framework requires write access to the folder.
    """

    sub_path: str
    path: str
    env: str = ""
    writable: bool = False


class MountPlan(msgspec.Struct, frozen=True):
    """The environment variable and the mounts that a workload needs to use a cache.

    Attributes:
        variable: the name of the framework's root variable.
        value: the value of the variable, which is the path of the root. For Habana, the path is followed by settings.
        mounts: the mounts, beginning with the framework's root.
    """

    variable: str
    value: str
    mounts: tuple[Mount, ...]


class ClaimMount(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A mount of a cache's claim in a container, and the environment variable that configures the framework to use it.

    Attributes:
        sub_path: the folder in the claim, relative to the root of the cache; empty for the whole claim.
        path: the absolute path in the container.
        variable: the name of the variable to set to `value`; empty if the framework finds the folder without a
            variable, or if the image does not specify the variable.
        value: usually `path`. For Habana, the path is followed by settings.
        writable: whether the framework requires write access to the folder.
    """

    sub_path: str
    path: str
    variable: str = ""
    value: str = ""
    writable: bool = False


class CaptureLabels(Protocol):
    """The fields of `ImageLabels` that describe how a cache was captured."""

    @property
    def format(self) -> str:
        """Format of the cache."""
        ...

    @property
    def mounts(self) -> MountPlan | None:
        """Mounts of the cache in a workload; None if the image does not specify them."""
        ...


class FormatLabels(CaptureLabels, Protocol):
    """The fields of `ImageLabels` that describe how a cache was captured and the format of its files."""

    @property
    def cache_formats(self) -> tuple[str, ...]:
        """Formats of a vLLM cache."""
        ...


class _Extra(msgspec.Struct, rename="camel"):
    sub_path: str
    abs_path: str
    env: str = ""
    requires_writable: bool = False


_extras = msgspec.json.Decoder(list[_Extra])


def read_mount_plan(cache_format: str, labels: Mapping[str, str]) -> MountPlan | None:
    """Return the mounts in KServe's labels.

    The result is None if the labels are missing, for example for Triton caches or old images.

    Raises:
        CacheError: a variable, path or list in the labels is invalid.
    """
    root, text = _ROOTS.get(cache_format), labels.get(names.ROOT_ENV)
    if root is None or text is None:
        return None
    variable, _, value = text.partition("=")
    if variable != root:
        raise CacheError(f"the label {names.ROOT_ENV} sets {variable[:80]!r}, but a {cache_format} cache needs {root}")
    # Habana's value contains settings after the folder.
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
    """Return the root path at which a cache was captured; None if it is not specified, as in Triton caches."""
    plan = labels.mounts
    if plan is None:
        return None
    return plan.value.partition(",")[0] if labels.format == HABANA else plan.value


def list_mounts(labels: CaptureLabels, mount_path: str) -> tuple[ClaimMount, ...]:
    """Return the mounts that a workload needs to use a cache.

    The first mount is the whole root at `mount_path`, because frameworks store more files in it than the labels list.
    The other mounts are the trees that were captured next to the root. Each tree is mounted at its original path,
    because its files contain this path.

    Args:
        labels: the labels of the image.
        mount_path: the path for which the cache was extracted, and at which workloads mount the root.
    """
    variable = names.TRITON_ROOT if labels.format == TRITON else _ROOTS.get(labels.format, "")
    value = mount_path
    if labels.format == HABANA:
        settings = labels.mounts.value.partition(",")[2] if labels.mounts is not None else _HABANA_SETTINGS
        value = f"{mount_path},{settings}" if settings else mount_path
    root = ClaimMount("", mount_path, variable, value if variable else "", writable=labels.format == HABANA)
    trees = (
        ClaimMount(each.sub_path, path, each.env, path if each.env else "", each.writable)
        for each, path in list_trees(labels, mount_path)
    )
    return (root, *trees)


def list_trees(labels: CaptureLabels, mount_path: str) -> list[tuple[Mount, str]]:
    """Return the trees that were captured next to the root, each with the path at which workloads mount it.

    A workload mounts a tree at the path where it was captured. If a tree was captured within the root, its path is
    relative to the mount path of the root.
    """
    root = find_capture_path(labels)
    return [
        (each, mount_path + each.path.removeprefix(root) if root and each.path.startswith(f"{root}/") else each.path)
        for each in (labels.mounts.mounts[1:] if labels.mounts is not None else ())
    ]


def translate_sub_path(sub_path: str, capture_path: str, trees: Collection[str]) -> str:
    """Convert a subPath, which may be in MCV's layout, to the image's layout.

    Newer releases of MCV extract the root to a folder next to the other trees. The folder is named after the last
    component of the root path, as in `vllm/torch_compile_cache`. accelkit preserves the layout of the image, in which
    the root contains all trees.

    Args:
        sub_path: the subPath in a pod's volume mount.
        capture_path: the root path at which the cache was captured; empty if it is unknown.
        trees: the folders of the trees that were captured next to the root.
    """
    first, _, rest = sub_path.strip("/").partition("/")
    moved = bool(first) and first == posixpath.basename(capture_path)
    taken = {COMPILE_FOLDER, *(each.partition("/")[0] for each in trees)}
    return rest if moved and first not in taken else sub_path


def list_variables(labels: CaptureLabels, mount_path: str) -> dict[str, str]:
    """Return the environment variables for a container that has the mounts from `list_mounts`.

    For vLLM, they include the variable for Triton's folder, which is in the home folder by default. If no Triton tree
    was captured, the variable is set to a folder within the root, so that a later capture of the root includes the
    kernels that Triton compiles.
    """
    mounts = list_mounts(labels, mount_path)
    variables = {each.variable: each.value for each in mounts if each.variable}
    if labels.format == VLLM:
        variables.setdefault(names.TRITON_ROOT, posixpath.join(mount_path, _TRITON_WITHIN))
    return variables


def is_relocatable(labels: FormatLabels) -> bool:
    """Return whether a cache works at any path without changes; False if its labels do not specify its file format."""
    return labels.format == HABANA or set(labels.cache_formats) == {_RELOCATABLE}


def _read_extra_mounts(text: str, primary: str, root: str) -> Iterable[Mount]:
    if not text.strip():
        return
    try:
        extras = _extras.decode(text)
    except (msgspec.MsgspecError, RecursionError) as exc:
        raise CacheError(f"the label {names.MOUNTS} is not a list of mounts: {exc}") from exc
    if len(extras) > MAX_EXTRA_MOUNTS:
        raise CacheError(f"the label {names.MOUNTS} lists {len(extras)} mounts; the limit is {MAX_EXTRA_MOUNTS}")
    sub_paths = {primary}
    paths = {root}
    for extra in extras:
        sub_path = _check_sub_path(names.MOUNTS, extra.sub_path)
        if not sub_path or sub_path in sub_paths:
            raise CacheError(
                f"the label {names.MOUNTS} mounts {extra.sub_path[:80]!r}, which is empty or already mounted"
            )
        if extra.env and not _FOLDER_VARIABLE.fullmatch(extra.env):
            raise CacheError(
                f"the label {names.MOUNTS} sets {extra.env[:80]!r}, which is not a variable for a cache folder"
            )
        path = _check_path(names.MOUNTS, extra.abs_path)
        if path in paths:
            raise CacheError(f"the label {names.MOUNTS} mounts several folders at {path[:80]!r}")
        sub_paths.add(sub_path)
        paths.add(path)
        yield Mount(sub_path, path, extra.env, extra.requires_writable)


def _check_sub_path(label: str, text: str) -> str:
    """Return the path if it is a valid relative path; return an empty string for `.`."""
    path = "" if text == "." else text
    if path and not is_plain(path):
        raise CacheError(f"the label {label} specifies the folder {text[:80]!r}, which is not a valid relative path")
    return path


def _check_path(label: str, text: str) -> str:
    if not text.startswith("/") or not is_plain(text[1:]):
        raise CacheError(f"the label {label} has the path {text[:80]!r}, which is not a plain absolute path")
    return text


def is_plain(path: str) -> bool:
    """Return whether a path without a leading slash consists only of ordinary names, without `.` or `..`."""
    if len(path.encode(errors="surrogatepass")) > MAX_PATH_BYTES or not path.isprintable():
        return False
    return not any(name in {"", ".", ".."} for name in path.split("/"))
