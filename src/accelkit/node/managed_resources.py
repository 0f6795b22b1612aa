"""Watch for the record of managed resources, which lists the resources that the agent may offer to new pods.

- If the ConfigMap does not exist, or does not list a resource, the agent does not offer the resource.
- If the ConfigMap is invalid, or the API server does not respond, the agent continues to use the last valid record. An
  agent that has just started has no record, so it does not offer any resources until the API server responds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from accelkit.errors import ManagedResourcesError
from accelkit.kube.client import ApiClient
from accelkit.kube.paths import build_config_maps_path
from accelkit.kube.reflector import Reflector
from accelkit.logs import ErrorReporter
from accelkit.model.managed_resources import decode_managed_resources
from accelkit.model.pod import ConfigMap

log = logging.getLogger(__name__)


class ManagedResourcesWatch:
    """Watch for the resources that are listed in the cluster's record.

    Args:
        api: an open client.
        namespace: the namespace of the ConfigMap.
        name: the name of the ConfigMap.
        on_change: called after each change of the list.
    """

    def __init__(self, api: ApiClient, namespace: str, name: str, on_change: Callable[[], None]) -> None:
        self._name = name
        self._on_change = on_change
        self._resources: frozenset[str] | None = None
        self._errors = ErrorReporter(log)
        self.reflector: Reflector[ConfigMap] = Reflector(
            api,
            build_config_maps_path(namespace),
            ConfigMap,
            query={"fieldSelector": f"metadata.name={name}"},
            on_replace=self._replace,
            on_event=self._follow,
        )

    def lists(self, resource: str) -> bool:
        """Return whether the record lists a resource."""
        return resource in (self._resources or ())

    def _replace(self, found: Sequence[ConfigMap]) -> None:
        if not found:
            self._take(frozenset(), f"ConfigMap {self._name} does not exist:")
        for each in found:
            self._read(each)

    def _follow(self, kind: str, config_map: ConfigMap) -> None:
        if kind == "DELETED":
            self._take(frozenset(), f"ConfigMap {self._name} was deleted:")
        else:
            self._read(config_map)

    def _read(self, config_map: ConfigMap) -> None:
        try:
            managed = decode_managed_resources(config_map.data or {})
        except ManagedResourcesError as exc:
            self._errors.report(
                str(exc), f"cannot use ConfigMap {self._name}: {exc}; the offered resources do not change"
            )
            return
        self._errors.clear()
        self._take(frozenset(managed.resources), f"ConfigMap {self._name} lists")

    def _take(self, resources: frozenset[str], source: str) -> None:
        if resources == self._resources:
            return
        self._resources = resources
        log.info("managed resources changed: %s %s", source, ", ".join(sorted(resources)) or "none")
        self._on_change()
