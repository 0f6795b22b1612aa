"""Injection of the caches that a pod's annotation requests: private copies, mounts and environment variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from accelkit.cachecontroller.webhook.annotation import AnnotationError, MountRequest
from accelkit.cachecontroller.webhook.cache_claims import CacheClaim
from accelkit.cachecontroller.webhook.copying import build_container, name_copy
from accelkit.cachecontroller.webhook.places import list_container_mounts, move
from accelkit.cachecontroller.webhook.pods import Object, find_volume, get_claim, list_containers, put_first
from accelkit.cachecontroller.webhook.replacement import ImageVolume, add_copy_volume, set_source
from accelkit.gkm.names import COPY_SOURCE_SUFFIX
from accelkit.model.keys import HOSTNAME_LABEL
from accelkit.texts import shorten

# Set both variables if the framework of the image is unknown; frameworks ignore each other's files.
_VARIABLES: Final = ("TRITON_CACHE_DIR", "VLLM_CACHE_ROOT")
# A preference for more nodes would include most of the cluster.
_MOST_HOSTS: Final = 100
_WEIGHT: Final = 50


class UnknownCacheError(AnnotationError):
    """The annotation refers to an unknown cache.

    Attributes:
        cache: name of the cache in the annotation.
    """

    def __init__(self, cache: str, text: str) -> None:
        super().__init__(text)
        self.cache = cache


def inject(
    pod: Object, request: MountRequest, claim: CacheClaim, image: str, build_image_volume: ImageVolume
) -> list[str]:
    """Add a private copy of a cache to a container of a pod; return warnings.

    Raises:
        AnnotationError: the mount path is unknown, or another volume is mounted at this path.
        ReplacementError: another volume has the name of the private copy.
    """
    cache = claim.cache
    root = request.path or claim.mount_path
    if not root:
        raise AnnotationError(
            f"kernel cache {cache.key} has no mount path yet; wait until the status of the cache contains "
            f"mountPath, or request {request.cache}={request.container}:/PATH"
        )
    container = next(each for each in list_containers(pod) if each.get("name") == request.container)
    copied, source = name_copy(cache.key, root), name_copy(cache.key, root) + COPY_SOURCE_SUFFIX
    mounts = list_container_mounts(claim, root)
    present = {str(each.get("mountPath", "")).rstrip("/"): each for each in container.get("volumeMounts") or []}
    taken = {mount.path: present[mount.path] for mount in mounts if mount.path in present}
    foreign = [path for path, mount in taken.items() if not _is_ours(pod, mount, claim)]
    if foreign:
        raise AnnotationError(
            f"container {request.container} has another volume mounted at {foreign[0]}, the mount path of kernel cache "
            f"{request.cache}; change one of the mount paths"
        )
    warnings: list[str] = []
    # If the container mounts the claim itself, `replace_volume` has already replaced it.
    if not taken or any(mount.get("name") == copied for mount in taken.values()):
        warnings = add_copy_volume(pod, copied, claim)
        if (volume := find_volume(pod, source)) is None:
            volume = {"name": source}
            pod["spec"]["volumes"].append(volume)
        within = set_source(volume, claim, build_image_volume)
        container.setdefault("volumeMounts", []).extend(
            {"name": copied, "mountPath": each.path, **({"subPath": each.sub_path} if each.sub_path else {})}
            for each in mounts
            if each.path not in taken
        )
        # If the mount path of the cache is unknown, the files are always rewritten.
        rewritten = mounts if root != claim.mount_path and not cache.status.relocatable else []
        put_first(pod, build_container(copied, source, image, pod, mounts=rewritten, within=within))
    return warnings + _set_variables(container, claim, root)


def prefer_nodes(pod: Object, hosts: Sequence[str]) -> None:
    """Add a preference for nodes on which a cache is ready, unless the pod already has a hostname preference."""
    if not hosts or len(hosts) > _MOST_HOSTS:
        return
    affinity = pod["spec"]["affinity"] = pod["spec"].get("affinity") or {}
    of_nodes = affinity["nodeAffinity"] = affinity.get("nodeAffinity") or {}
    terms = of_nodes.get("preferredDuringSchedulingIgnoredDuringExecution") or []
    named = [each.get("key") for term in terms for each in (term.get("preference") or {}).get("matchExpressions") or []]
    if HOSTNAME_LABEL not in named:
        expression = {"key": HOSTNAME_LABEL, "operator": "In", "values": sorted(hosts)}
        terms = [*terms, {"weight": _WEIGHT, "preference": {"matchExpressions": [expression]}}]
        of_nodes["preferredDuringSchedulingIgnoredDuringExecution"] = terms


def _is_ours(pod: Object, mount: Object, claim: CacheClaim) -> bool:
    """Return whether a mount uses a private copy or a claim of the same cache."""
    name = str(mount.get("name"))
    volume = find_volume(pod, name) or {}
    if get_claim(volume):
        return get_claim(volume) == claim.name
    filled: Object = next((each for each in pod["spec"].get("initContainers") or [] if each.get("name") == name), {})
    sources = [find_volume(pod, str(each.get("name"))) or {} for each in filled.get("volumeMounts") or []]
    return any(get_claim(each) == claim.name or "image" in each for each in sources)


def _set_variables(container: Object, claim: CacheClaim, root: str) -> list[str]:
    variables = claim.cache.status.variables or dict.fromkeys(_VARIABLES, claim.mount_path or root)
    present = {str(each.get("name")): each for each in container.get("env") or []}
    warnings = []
    for name, value in sorted(variables.items()):
        # The value for Habana consists of a folder and settings.
        folder, comma, rest = value.partition(",")
        desired = move(folder, claim.mount_path, root) + comma + rest
        if name not in present:
            container["env"] = [*(container.get("env") or []), {"name": name, "value": desired}]
        elif present[name].get("value") != desired:
            actual = shorten(str(present[name].get("value", "a reference (valueFrom)")), 100)
            warnings.append(
                f"container {container.get('name')} sets {name} to {actual}; to use kernel cache "
                f"{claim.cache.metadata.name}, set it to {desired}"
            )
    return warnings
