"""Mount paths of a cache in a pod, and the paths for which the files of the cache must be rewritten."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass

from accelkit.cachecontroller.webhook.cache_claims import CacheClaim
from accelkit.cachecontroller.webhook.pods import Object, find_root
from accelkit.gkm.objects import CacheMount


@dataclass(frozen=True, slots=True)
class Places:
    """Mount paths of a cache in a pod.

    Attributes:
        root: mount path of the cache root in the containers.
        others: other mount paths of the root.
        rewritten: paths for which a copy must be rewritten, the root first; empty if no rewriting is needed.
    """

    root: str
    others: tuple[str, ...] = ()
    rewritten: tuple[CacheMount, ...] = ()


def find_places(pod: Object, claim: CacheClaim, mounts: Sequence[tuple[Object, Object]]) -> Places:
    """Return the mount paths of a cache in a pod.

    Args:
        pod: pod that mounts the cache.
        claim: claim of the cache.
        mounts: mounts of the volume, with their containers. If regular containers mount the volume, mounts of init
            containers are ignored, because init containers usually prepare files at another path.
    """
    containers = pod["spec"].get("containers") or []
    order = {str(each.get("name")): number for number, each in enumerate(containers)}
    users = sorted(
        (pair for pair in mounts if str(pair[0].get("name")) in order), key=lambda pair: order[str(pair[0]["name"])]
    )
    captured = {each.sub_path: each.path.rstrip("/") for each in claim.cache.status.mounts if each.sub_path}
    roots, trees = dict[str, None](), dict[str, str]()
    for _, mount in users or mounts:
        within = str(mount.get("subPath") or "").strip("/")
        if within in captured:
            trees.setdefault(within, posixpath.normpath(str(mount.get("mountPath") or "/")))
        elif root := find_root(mount):
            roots.setdefault(root)
    home = claim.mount_path
    root = home if home in roots or not roots else next(iter(roots))
    # Relocatable files do not contain paths.
    if claim.cache.status.relocatable:
        return Places(root)
    others = tuple(each for each in roots if each != root)
    if not home:
        # The cache has not been evaluated yet, so the files may be prepared for any path.
        return Places(root, others, (CacheMount(root),) if root else ())
    moved = root != home or any(path != captured[within] for within, path in trees.items())
    return Places(root, others, tuple(list_container_mounts(claim, root, trees)) if moved else ())


def list_container_mounts(claim: CacheClaim, root: str, places: dict[str, str] | None = None) -> list[CacheMount]:
    """Return the mounts of a cache in a container, the root first.

    Folders that were captured outside the root keep their paths. The paths of folders inside the root change with the
    root.

    Args:
        claim: claim of the cache.
        root: mount path of the root in the container.
        places: mount paths of folders that are mounted separately.
    """
    trees = (each for each in claim.cache.status.mounts if each.sub_path)
    moved = ((each.sub_path, move(each.path.rstrip("/"), claim.mount_path, root)) for each in trees)
    mounts = [CacheMount((places or {}).get(within, path), within) for within, path in moved]
    return [CacheMount(root), *(each for each in mounts if each.path != f"{root}/{each.sub_path}")]


def move(path: str, former: str, root: str) -> str:
    """Return the new path of an entry in a cache after the cache root has moved from `former` to `root`."""
    if former and (path == former or path.startswith(f"{former}/")):
        return posixpath.normpath(root + path[len(former) :])
    return path
