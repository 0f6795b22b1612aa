"""Keeps an open breaker where the next leader and people find it: a ConfigMap, which people delete to close it."""

from __future__ import annotations

from typing import Final

import msgspec

from accelkit.kube.client import ApiClient
from accelkit.kube.objects import get_if_present
from accelkit.kube.paths import build_config_maps_path, build_object_path
from accelkit.model.keys import PART_OF_LABELS
from accelkit.model.pod import ConfigMap

_WHY: Final = "why"


class BreakerStore:
    """The ConfigMap.

    Args:
        api: an open client.
        namespace: where it lies.
        name: how it is called.
    """

    def __init__(self, api: ApiClient, namespace: str, name: str) -> None:
        self._api, self.name = api, name
        self._collection = build_config_maps_path(namespace)

    async def read(self) -> str | None:
        """Return why the breaker is open; None where it is not.

        Raises:
            ApiError: the API server refused, or did not answer.
        """
        answer = await get_if_present(self._api, build_object_path(self._collection, self.name))
        if answer is None:
            return None
        try:
            data = msgspec.json.decode(answer, type=ConfigMap).data or {}
        except msgspec.MsgspecError:
            data = {}
        return data.get(_WHY) or "it was found open"

    async def write(self, why: str) -> None:
        """Leave it open.

        Raises:
            ApiError: the API server refused, or did not answer.
        """
        # Not by the label of a component: each run of the playbooks would delete it, and so close the breaker.
        metadata = {"name": self.name, "labels": PART_OF_LABELS}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {_WHY: why}}
        await self._api.post(self._collection, body)
