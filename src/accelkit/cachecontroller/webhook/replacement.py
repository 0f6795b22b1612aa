"""Replacement of a cache's claim with the pinned claim for one digest, or with a private copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from accelkit.cachecontroller.webhook.cache_claims import CacheClaim
from accelkit.cachecontroller.webhook.copying import build_container, build_volume, fills_copy, find_shortage, name_copy
from accelkit.cachecontroller.webhook.places import Places, find_places
from accelkit.cachecontroller.webhook.pods import Object, find_volume, list_mounts, put_first
from accelkit.errors import AccelkitError
from accelkit.gkm.objects import Cache, CacheStatus, Delivery
from accelkit.kernelcache.formats.mounts import translate_sub_path

ImageVolume: TypeAlias = Callable[[Cache, str], tuple[dict[str, Any], str] | None]
# Mount propagation would make a private copy visible outside the container.
_PROPAGATION: Final = "mountPropagation"


class ReplacementError(AccelkitError):
    """The cache cannot be mounted in the pod as requested; the message contains the reason."""


def replace_volume(
    pod: Object, volume: Object, claim: CacheClaim, image: str, build_image_volume: ImageVolume
) -> list[str]:
    """Replace the volume of a cache in place; return warnings.

    If all mounts are read-only, the source of the volume becomes the claim of one digest. Otherwise, the containers
    mount a private copy of this claim. A copy is also used if the files contain a path that differs from the mount
    path, because frameworks would not find such files, and could not write new files.

    Raises:
        ReplacementError: another volume has the name of the private copy.
    """
    name = str(volume.get("name"))
    copied = name_copy(name)
    # If the copy exists, the webhook has handled the pod before, and another webhook may have added a container since.
    forced = bool((volume.get("persistentVolumeClaim") or {}).get("readOnly")) and find_volume(pod, copied) is None
    mounts = [(who, mount) for who, mount in list_mounts(pod, name) if not fills_copy(who, mount)]
    for _, mount in mounts:
        _translate_folder(mount, claim.cache.status)
    writable = not forced and any(not mount.get("readOnly") for _, mount in mounts)
    within = set_source(volume, claim, build_image_volume)
    copies = [(who, mount) for who, mount in list_mounts(pod, copied) if not fills_copy(who, mount)]
    places = find_places(pod, claim, [*mounts, *copies])
    if not mounts or not (writable or (places.rewritten and claim.mount_path)):
        for _, mount in mounts:
            if within:
                mount["subPath"] = "/".join(filter(None, (within, mount.get("subPath"))))
            mount["readOnly"] = True
        return _warn_of_places(claim, places, writable=False) if mounts else []
    warnings = add_copy_volume(pod, copied, claim)
    for _, mount in mounts:
        mount["name"] = copied
        mount.pop(_PROPAGATION, None)
        if forced:
            mount["readOnly"] = True
    put_first(pod, build_container(copied, name, image, pod, mounts=places.rewritten, within=within))
    return [*warnings, *_warn_of_places(claim, places, writable=writable)]


def _translate_folder(mount: Object, status: CacheStatus) -> None:
    """Convert the subPath of a mount from the folder layout of MCV to accelkit's layout."""
    if not mount.get("subPath"):
        return
    trees = [each.sub_path for each in status.mounts if each.sub_path]
    folder = translate_sub_path(str(mount["subPath"]), status.capture_path, trees)
    if folder:
        mount["subPath"] = folder
    else:
        del mount["subPath"]


def set_source(volume: Object, claim: CacheClaim, build_image_volume: ImageVolume) -> str:
    """Set a volume's source to one digest, as read-only; return the cache's folder in the source (usually empty)."""
    if claim.digest and claim.cache.status.delivery == Delivery.IMAGE.value:
        built = build_image_volume(claim.cache, claim.digest)
        if built is not None:
            volume.pop("persistentVolumeClaim", None)
            volume.update(built[0])
            return built[1]
    volume["persistentVolumeClaim"] = {"claimName": claim.name, "readOnly": True}
    return ""


def add_copy_volume(pod: Object, name: str, claim: CacheClaim) -> list[str]:
    """Add the volume of a private copy if the volume is missing; return warnings.

    Raises:
        ReplacementError: a volume of another type has the name.
    """
    present = find_volume(pod, name)
    if present is None:
        pod["spec"].setdefault("volumes", []).append(build_volume(name, claim.cache.status.cache_bytes))
    elif "emptyDir" not in present:
        raise ReplacementError(f"volume {name} has a name that is reserved for private copies of caches; rename it")
    return [shortage] if (shortage := find_shortage(pod, claim.cache.status.cache_bytes)) else []


def _warn_of_places(claim: CacheClaim, places: Places, *, writable: bool) -> list[str]:
    cache = claim.cache.metadata.name
    warnings = []
    if places.rewritten and not writable and claim.mount_path:
        warnings.append(
            f"kernel cache {cache} is prepared for {claim.mount_path} but mounted at {places.root}: the pod gets a "
            f"copy with rewritten paths; to avoid the copy, set spec.mountPath of the cache"
        )
    elif places.rewritten and not writable:
        warnings.append(
            f"the mount path of kernel cache {cache} is not known yet; if it is not {places.root}, kernels with "
            f"the path in their key will be missed; set spec.mountPath of the cache"
        )
    if places.others:
        warnings.append(
            f"kernel cache {cache} is mounted at {places.root} and at {places.others[0]}: kernels with the path in "
            f"their key will be missed at the second path; mount the cache at one path"
        )
    return warnings
