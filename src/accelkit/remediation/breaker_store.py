"""Storage of an open breaker for the next leader, in a ConfigMap. To close the breaker, an administrator deletes it."""

from __future__ import annotations

from typing import Final

import msgspec

from accelkit.kube.client import ApiClient
from accelkit.kube.objects import get_if_present
from accelkit.kube.paths import build_config_maps_path, build_object_path
from accelkit.model.keys import PART_OF_LABELS
from accelkit.model.pod import ConfigMap

_REASON_KEY: Final = "why"


class BreakerStore:
    """The ConfigMap that records an open breaker.

    Args:
        api: an open client.
        namespace: the namespace of the ConfigMap.
        name: the name of the ConfigMap.
    """

    def __init__(self, api: ApiClient, namespace: str, name: str) -> None:
        self._api, self.name = api, name
        self._collection = build_config_maps_path(namespace)

    async def read(self) -> str | None:
        """Return the reason why the breaker is open; None if it is closed.

        Raises:
            ApiError: the API server rejected the request or did not respond.
        """
        answer = await get_if_present(self._api, build_object_path(self._collection, self.name))
        if answer is None:
            return None
        try:
            data = msgspec.json.decode(answer, type=ConfigMap).data or {}
        except msgspec.MsgspecError:
            data = {}
        return data.get(_REASON_KEY) or "unknown, because the ConfigMap contains no reason"

    async def write(self, reason: str) -> None:
        """Record that the breaker is open, with the reason.

        Raises:
            ApiError: the API server rejected the request or did not respond.
        """
        # Do not add a component label, because each playbook run would then delete the ConfigMap and so close the
        # breaker.
        metadata = {"name": self.name, "labels": PART_OF_LABELS}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {_REASON_KEY: reason}}
        await self._api.post(self._collection, body)
