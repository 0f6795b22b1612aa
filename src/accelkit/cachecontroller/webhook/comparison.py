"""Comparison of a pod's environment variables with the values at capture; differences usually cause cache misses."""

from __future__ import annotations

from typing import Final

from accelkit.cachecontroller.webhook.cache_claims import CacheClaims, find_claim
from accelkit.cachecontroller.webhook.pods import Object
from accelkit.kernelcache.formats.recorded import is_counted, list_differing, select_comparable
from accelkit.texts import shorten

# Pod fields whose values differ between pods or nodes.
_CHANGING: Final = {
    **dict.fromkeys(("status.podIP", "status.podIPs", "metadata.name", "metadata.uid"), "pod"),
    **dict.fromkeys(("status.hostIP", "status.hostIPs", "spec.nodeName"), "node"),
}


def compare_environment(pod: Object, claims: CacheClaims) -> list[str]:
    """Return a warning for each environment variable of a container whose value differs from the value at capture.

    Args:
        pod: pod with its final volumes.
        claims: claims in the namespace of the pod.
    """
    volumes = pod["spec"].get("volumes") or []
    found = ((str(volume.get("name")), find_claim(volume, claims)) for volume in volumes)
    sources = {name: claim for name, claim in found if claim is not None}
    for filling in pod["spec"].get("initContainers") or []:
        mounted = [str(each.get("name")) for each in filling.get("volumeMounts") or []]
        of = next((sources[each] for each in mounted if each in sources), None)
        if of is not None and filling.get("name") in mounted:
            sources[str(filling["name"])] = of
    warnings = []
    for container in pod["spec"].get("containers") or []:
        mounted = [str(each.get("name")) for each in container.get("volumeMounts") or []]
        caches = {sources[each].cache.key: sources[each].cache for each in mounted if each in sources}
        for cache in caches.values():
            recorded, own = cache.status.recorded_environment, _list_variables(container)
            warnings += [
                f"container {container.get('name')} sets {name} to {shorten(own[name], 60)!r}; kernel cache "
                f"{cache.metadata.name} was captured with {shorten(recorded[name], 60)!r}, so kernels may be missed"
                for name in list_differing(recorded, own)
            ]
            warnings += [
                f"container {container.get('name')} sets {name} to {field}, which differs for each "
                f"{_CHANGING[field]}; vLLM includes the value in its cache key, so the kernels of cache "
                f"{cache.metadata.name} may always be missed"
                # The capture records only the name of a variable whose value may be secret.
                for name, field in _list_changing(container).items()
                if name in recorded
            ]
    return warnings


def _list_variables(container: Object) -> dict[str, str]:
    found = _find_own(container).items()
    return select_comparable(
        {name: None if "valueFrom" in each else str(each.get("value") or "") for name, each in found}
    )


def _list_changing(container: Object) -> dict[str, str]:
    """Return the variables with values that differ between pods or nodes, and the pod field of each variable."""
    fields = {
        name: str(((each.get("valueFrom") or {}).get("fieldRef") or {}).get("fieldPath") or "")
        for name, each in _find_own(container).items()
        if is_counted(name)
    }
    return {name: field for name, field in fields.items() if field in _CHANGING}


def _find_own(container: Object) -> dict[str, Object]:
    # If a variable is defined several times, the last definition is used.
    return {str(each.get("name", "")): each for each in container.get("env") or []}
