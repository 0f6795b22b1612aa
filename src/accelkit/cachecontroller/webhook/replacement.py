"""Replaces the claim of a volume by that of one digest, and what is written to by a private copy."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from accelkit.cachecontroller.webhook.claims import CacheClaim
from accelkit.cachecontroller.webhook.copying import build_container, build_volume, name_copy
from accelkit.cachecontroller.webhook.pods import Object, find_root, find_volume, list_mounts, put_first
from accelkit.gkm.objects import Cache, CacheMount, CacheStatus, Delivery
from accelkit.kernelcache.formats.mounts import translate_sub_path

ImageVolume: TypeAlias = Callable[[Cache, str], tuple[dict[str, Any], str] | None]
# What makes a mount be seen by others, which a private copy must not be.
_PROPAGATION: Final = "mountPropagation"


class ReplacementError(ValueError):
    """The pod cannot get the cache as it asks for it; the text says why."""


def replace_volume(
    pod: Object, volume: Object, claim: CacheClaim, image: str, build_image_volume: ImageVolume
) -> list[str]:
    """Replace a volume of a cache in place; return warnings.

    Where nobody writes to it, it becomes the claim of one digest, read-only. Else that stays the source of a private
    copy, which all containers mount instead.

    Raises:
        ReplacementError: a volume that it needs is there already, and is another one.
    """
    name = str(volume.get("name"))
    copied = name_copy(name)
    # Where the copy is there, this was done before, and somebody has added a container.
    forced = bool((volume.get("persistentVolumeClaim") or {}).get("readOnly")) and find_volume(pod, copied) is None
    mounts = [(who, mount) for who, mount in list_mounts(pod, name) if who.get("name") != copied]
    for _, mount in mounts:
        _translate_folder(mount, claim.cache.status)
    writable = not forced and any(not mount.get("readOnly") for _, mount in mounts)
    within = set_source(volume, claim, build_image_volume)
    roots = _find_roots(pod, mounts)
    if not writable:
        for _, mount in mounts:
            if within:
                mount["subPath"] = "/".join(filter(None, (within, mount.get("subPath"))))
            mount["readOnly"] = True
        return _warn_of_paths(claim, roots)
    add_copy_volume(pod, copied, claim)
    for _, mount in mounts:
        mount["name"] = copied
        mount.pop(_PROPAGATION, None)
    root = next(iter(roots), "") if len(roots) == 1 else ""
    moved = root if claim.mount_path and root != claim.mount_path else ""
    seen = list_seen(claim, moved) if moved else []
    put_first(pod, build_container(copied, name, image, pod, seen=seen, within=within))
    return [] if moved else _warn_of_paths(claim, roots)


def _translate_folder(mount: Object, status: CacheStatus) -> None:
    """Let a mount of a folder in the layout of MCV's extractions show the same files of ours."""
    if not mount.get("subPath"):
        return
    trees = [each.sub_path for each in status.mounts if each.sub_path]
    folder = translate_sub_path(str(mount["subPath"]), status.capture_path, trees)
    if folder:
        mount["subPath"] = folder
    else:
        del mount["subPath"]


def list_seen(claim: CacheClaim, root: str) -> list[CacheMount]:
    """Return what a container sees of a cache whose root it has somewhere, that root first.

    Trees that were captured beside the root keep their places; those within it go with it.
    """
    trees = (each for each in claim.cache.status.mounts if each.sub_path)
    seen = [CacheMount(move(each.path.rstrip("/"), claim.mount_path, root), each.sub_path) for each in trees]
    return [CacheMount(root), *(each for each in seen if each.path != f"{root}/{each.sub_path}")]


def move(path: str, former: str, root: str) -> str:
    """Return a path of a cache whose root is somewhere else than before."""
    if former and (path == former or path.startswith(f"{former}/")):
        return posixpath.normpath(root + path[len(former) :])
    return path


def set_source(volume: Object, claim: CacheClaim, build_image_volume: ImageVolume) -> str:
    """Make a volume that of one digest, read-only; return the folder in it that is the cache's root, mostly empty."""
    if claim.digest and claim.cache.status.delivery == Delivery.IMAGE.value:
        built = build_image_volume(claim.cache, claim.digest)
        if built is not None:
            volume.pop("persistentVolumeClaim", None)
            volume.update(built[0])
            return built[1]
    volume["persistentVolumeClaim"] = {"claimName": claim.name, "readOnly": True}
    return ""


def add_copy_volume(pod: Object, name: str, claim: CacheClaim) -> None:
    """Add the volume of a private copy where it is not there yet.

    Raises:
        ReplacementError: a volume of another kind has its name.
    """
    present = find_volume(pod, name)
    if present is None:
        pod["spec"].setdefault("volumes", []).append(build_volume(name, claim.cache.status.cache_bytes))
    elif "emptyDir" not in present:
        raise ReplacementError(f"volume {name} has a name that is kept for private copies of caches; rename it")


def _find_roots(pod: Object, mounts: Sequence[tuple[Object, Object]]) -> set[str]:
    """Return where the root is seen by those who use it; init containers prepare it, mostly somewhere else."""
    users = [str(each.get("name")) for each in pod["spec"].get("containers") or []]
    used = {find_root(mount) for who, mount in mounts if who.get("name") in users}
    return used or {find_root(mount) for _, mount in mounts}


def _warn_of_paths(claim: CacheClaim, roots: set[str]) -> list[str]:
    """Warn where a container looks for files that name each other by another path."""
    others = sorted(each for each in roots if each and each != claim.mount_path)
    if not claim.mount_path or not others:
        return []
    warning = (
        f"kernel cache {claim.cache.metadata.name} is prepared for {claim.mount_path}, and is mounted at "
        f"{others[0]}: kernels that are named by path will be missed; set spec.mountPath of the cache"
    )
    return [warning]
