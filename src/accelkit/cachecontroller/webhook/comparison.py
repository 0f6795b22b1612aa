"""Compares a pod's variables with those under which its caches were captured: what differs is mostly a miss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from accelkit.cachecontroller.webhook.claims import CacheClaim, find_claim
from accelkit.cachecontroller.webhook.pods import Object
from accelkit.kernelcache.formats.environment import REDACTED
from accelkit.kernelcache.formats.recorded import agrees
from accelkit.texts import shorten

_PREFIX: Final = "VLLM_"
# vLLM leaves it out of the name of a cache's entry.
_IGNORED: Final = frozenset({"VLLM_CACHE_ROOT"})
# Kubernetes puts another variable there, which may be of another object.
_REFERENCE: Final = "$("


def compare_environment(pod: Object, claims: Mapping[str, CacheClaim]) -> list[str]:
    """Return a warning for each variable of a container that was another one when its cache was captured.

    Args:
        pod: with its volumes as they will be.
        claims: of its namespace.
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
            for name, value in _list_variables(container).items():
                recorded = cache.status.recorded_environment.get(name)
                # What may be secret is not told by the image.
                if recorded not in (None, REDACTED) and not agrees(recorded or "", value):
                    warnings.append(
                        f"container {container.get('name')} sets {name} to {shorten(value, 60)!r}; kernel cache "
                        f"{cache.metadata.name} was captured with {shorten(recorded or '', 60)!r}, so it may miss"
                    )
    return warnings


def _list_variables(container: Object) -> dict[str, str]:
    # The last of several counts.
    told = {str(each.get("name", "")): each for each in container.get("env") or []}
    values = {name: str(each.get("value") or "") for name, each in told.items() if "valueFrom" not in each}
    return {
        name: value
        for name, value in values.items()
        if name.startswith(_PREFIX) and name not in _IGNORED and _REFERENCE not in value
    }
