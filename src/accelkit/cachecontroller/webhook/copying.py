"""Private copies of caches: an emptyDir volume, and the init container that fills it from a read-only claim."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from accelkit.errors import QuantityError
from accelkit.gkm import names
from accelkit.gkm.objects import CacheMount
from accelkit.model.units import parse_milli

# Name prefix of the webhook's volumes and init containers, which cache agents use to recognize private copies.
PREFIX: Final = names.VOLUME_PREFIX
_FROM, _TO = "/accelkit/from", "/accelkit/to"
# User ID of accelkit's image. All users can write to the files of a copy, because only the pod mounts the folder.
_IMAGE_USER: Final = 65532
_MIB: Final = 1 << 20
_MARGIN_BYTES: Final = 4 << 30
_CPU: Final = "500m"
_MEMORY: Final = "256Mi"
_STORAGE: Final = "ephemeral-storage"

Object = dict[str, Any]


def name_copy(*parts: str) -> str:
    """Return the name of a private copy, which is used for its volume and its init container."""
    return names.name_private_copy(*parts)


def build_volume(name: str, cache_bytes: int) -> Object:
    """Return the volume of a private copy.

    The size limit is twice the cache size plus 4 GiB, because the workload adds files and the kubelet evicts pods that
    exceed the limit.

    Args:
        name: name of the volume.
        cache_bytes: size of the cache; 0 if the size is unknown, in which case no limit is set.
    """
    limit = -(-(2 * cache_bytes + _MARGIN_BYTES) // _MIB)
    return {"name": name, "emptyDir": {"sizeLimit": f"{limit}Mi"} if cache_bytes else {}}


def build_container(
    name: str, source: str, image: str, pod: Object, *, mounts: Sequence[CacheMount] = (), within: str = ""
) -> Object:
    """Return the init container that fills a private copy.

    Args:
        name: name of the container and of the private copy's volume.
        source: name of the volume to copy.
        image: accelkit image.
        pod: pod with all mounts of the private copy.
        mounts: mount paths for which the files are rewritten, the root first; empty if no rewriting is needed.
        within: folder of the cache in the source volume; empty for the whole volume.
    """
    arguments = ["cache", "private-copy", "--from", _FROM, "--to", _TO]
    for number, each in enumerate(mounts):
        arguments += ["--tree", f"{each.sub_path}={each.path}"] if number else ["--mount-path", each.path]
    read: Object = {"name": source, "mountPath": _FROM, "readOnly": True}
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": arguments,
        "securityContext": _build_security_context(name, pod),
        "resources": _build_resources(pod["spec"].get("containers") or []),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {**read, "subPath": within} if within else read,
            {"name": name, "mountPath": _TO},
        ],
    }


def find_shortage(pod: Object, cache_bytes: int) -> str:
    """Return a warning if the pod's ephemeral-storage limits are too low for a copy; empty if they are sufficient."""
    resources = [each.get("resources") or {} for each in pod["spec"].get("containers") or []]
    limits = [limit for each in resources if (limit := (each.get("limits") or {}).get(_STORAGE)) is not None]
    try:
        allowed = sum(parse_milli(each) for each in limits) // 1000
    except QuantityError:
        return ""
    if not limits or cache_bytes <= allowed:
        return ""
    return (
        f"the ephemeral-storage limit of the pod is {allowed} bytes, but its kernel cache copy needs {cache_bytes}: "
        f"the kubelet will evict the pod; raise the limit, or mount the cache read-only"
    )


def fills_copy(container: Object, mount: Object) -> bool:
    """Return whether a mount belongs to an init container of the webhook, which fills a private copy."""
    return str(container.get("name", "")).startswith(PREFIX) and mount.get("mountPath") in {_FROM, _TO}


def _build_security_context(volume: str, pod: Object) -> Object:
    """Return a security context that meets the Restricted Pod Security Standard, with the workload's user if known."""
    spec = pod["spec"]
    of_pod = spec.get("securityContext") or {}
    users, groups = set(), set()
    for container in spec.get("containers") or []:
        if any(each.get("name") == volume for each in container.get("volumeMounts") or []):
            own = container.get("securityContext") or {}
            users.add(own.get("runAsUser", of_pod.get("runAsUser")))
            groups.add(own.get("runAsGroup", of_pod.get("runAsGroup")))
    user = users.pop() if len(users) == 1 else None
    context: Object = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "privileged": False,
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    if user:
        context["runAsUser"] = user
        group = groups.pop() if len(groups) == 1 else None
        if group is not None:
            context["runAsGroup"] = group
    elif of_pod.get("runAsUser") is not None:
        # Without this field, the container would inherit the pod's user, which may be root.
        context["runAsUser"] = of_pod["runAsUser"] or _IMAGE_USER
    # Without this field, the user of the image applies, or the cluster assigns a user.
    return context


def _build_resources(containers: Sequence[Object]) -> Object:
    """Return resources that do not change the QoS class or the effective requests of the pod."""
    resources: dict[str, Object] = {"requests": {}, "limits": {}}
    for resource, least in (("cpu", _CPU), ("memory", _MEMORY)):
        limits = [((each.get("resources") or {}).get("limits") or {}).get(resource) for each in containers]
        if containers and all(limit is not None for limit in limits):
            # All containers of a Guaranteed pod have limits, and a quota may require limits.
            amount = _choose_least(least, limits)
            resources["limits"][resource] = resources["requests"][resource] = amount
        else:
            resources["requests"][resource] = "10m" if resource == "cpu" else "64Mi"
    return {name: amounts for name, amounts in resources.items() if amounts}


def _choose_least(least: str, limits: Iterable[Any]) -> Any:
    """Return the desired amount or, if it is lower, the highest limit in the pod."""
    try:
        largest = max(limits, key=parse_milli)
        return least if parse_milli(least) <= parse_milli(largest) else largest
    except QuantityError:
        # Ignore an invalid amount, because the API server rejects it with a better message.
        return least
