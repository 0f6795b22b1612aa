"""Ledger and kubelet allocations, which are read once for all checks that wait for this data."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from accelkit.audit.evidence import Ledger, read_allocations
from accelkit.errors import ApiError, AssignmentError, ServiceError
from accelkit.inspection.extender_client import query_extender, read_address
from accelkit.inspection.inspection import InspectedNode, Inspection
from accelkit.inspection.service_proxy import ProxiedExtender
from accelkit.kube.client import ApiClient
from accelkit.model.observed_allocations import Allocations

AGAIN_SECONDS: Final = 1.0


def build_ledger(api: ApiClient, namespace: str, *, url: str, service: str) -> Ledger:
    """Return a function that reads the ledger from the extender's URL, or through the API server if `url` is empty.

    Raises:
        ConfigurationError: the URL is invalid.
    """
    at = read_address(url or None, ca=None, cert=None, key=None, server_name=None)
    return ProxiedExtender(api, namespace, service).query if at is None else partial(query_extender, at, None)


@dataclass(frozen=True)
class View:
    """The ledger and the kubelets' allocations at one point in time.

    Attributes:
        counted: each node's entry in the ledger, or the reason why the ledger is unknown.
        held: the kubelet's allocations on each node, which the node agent publishes, or the reason why they are
            unknown.
        began_at: the time at which reading began, on the clock of `time.monotonic`.
    """

    counted: Mapping[str, InspectedNode] | ServiceError
    held: Mapping[str, Allocations | AssignmentError] | ApiError
    began_at: float = field(default_factory=time.monotonic)


class Sides:
    """Reader of the ledger and the kubelet allocations for all waiting tasks, at most once per second.

    Args:
        api: an open client.
        namespace: accelkit's namespace.
        ledger: a function that returns the extender's ledger, or the reason why it is unreadable.
    """

    def __init__(self, api: ApiClient, namespace: str, ledger: Ledger) -> None:
        self._api, self._namespace, self._ledger = api, namespace, ledger
        self._turn = asyncio.Lock()
        self._view: View | None = None

    async def read(self, since: float) -> View:
        """Return a view whose reading began after `since`, a time on the clock of `time.monotonic`."""
        async with self._turn:
            view = self._view
            if view is not None and view.began_at >= since:
                return view
            if view is not None:
                await asyncio.sleep(max(0.0, view.began_at + AGAIN_SECONDS - time.monotonic()))
            began_at = time.monotonic()
            counted, held = await self._read_ledger(), await self._read_held()
            self._view = View(counted, held, began_at)
            return self._view

    async def _read_ledger(self) -> Mapping[str, InspectedNode] | ServiceError:
        try:
            found = await self._ledger()
        except ServiceError as exc:
            return exc
        except ApiError as exc:
            return ServiceError(str(exc))
        return {node.name: node for node in found.nodes} if isinstance(found, Inspection) else found

    async def _read_held(self) -> Mapping[str, Allocations | AssignmentError] | ApiError:
        try:
            return await read_allocations(self._api, self._namespace)
        except ApiError as exc:
            return exc
