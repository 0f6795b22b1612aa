"""Writes the Service's EndpointSlice, so that requests go to the replica that may bind."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient
from accelkit.kube.objects import get_if_present
from accelkit.kube.paths import build_collection_path, build_object_path

log = logging.getLogger(__name__)

_CHECK_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class LeaderEndpoint:
    """Where the leader is reached.

    Args:
        namespace: of the Service.
        service: name of a Service without selector; the EndpointSlice has the same name.
        address: our IP address in the cluster.
        port: where we listen.
        pod: name of our pod, for people who look.
    """

    namespace: str
    service: str
    address: str
    port: int
    pod: str = ""


class EndpointWriter:
    """Keeps the EndpointSlice of a Service naming us, while it runs.

    Args:
        api: an open client.
        endpoint: where we are reached.
    """

    def __init__(self, api: ApiClient, endpoint: LeaderEndpoint) -> None:
        self._api = api
        self._endpoint = endpoint

    async def run(self) -> None:
        """Write, and write again where others changed it, until cancelled. The address stays for a successor."""
        while True:
            try:
                await self.write()
            except (ApiError, msgspec.MsgspecError, LookupError, TypeError) as exc:
                log.warning("the EndpointSlice of Service %s cannot be written: %s", self._endpoint.service, exc)
            await asyncio.sleep(_CHECK_SECONDS)

    async def write(self) -> None:
        """Make the EndpointSlice name us alone.

        Raises:
            ApiError: the API server refused, or did not answer.
        """
        at = self._endpoint
        slices = build_collection_path("discovery.k8s.io/v1", "endpointslices", at.namespace)
        path = build_object_path(slices, at.service)
        answer = await get_if_present(self._api, path)
        if answer is None:
            services = build_collection_path("v1", "services", at.namespace)
            service = msgspec.json.decode(await self._api.get(build_object_path(services, at.service)))
            owner = {"apiVersion": "v1", "kind": "Service", "name": at.service, "uid": service["metadata"]["uid"]}
            metadata = {"name": at.service, "namespace": at.namespace, "ownerReferences": [owner]}
            await self._api.post(slices, self._slice(metadata))
            log.info("requests to Service %s come to %s", at.service, at.address)
            return
        there = msgspec.json.decode(answer)
        wanted = self._slice(there["metadata"])
        if there["addressType"] != wanted["addressType"]:
            # It cannot be changed in place; the next turn creates it anew.
            await self._api.delete(path)
            return
        if [there["endpoints"], there["ports"]] != [wanted["endpoints"], wanted["ports"]]:
            await self._api.put(path, wanted)
            log.info("requests to Service %s come to %s", at.service, at.address)

    def _slice(self, metadata: Mapping[str, object]) -> dict[str, object]:
        at = self._endpoint
        target = {"targetRef": {"kind": "Pod", "namespace": at.namespace, "name": at.pod}} if at.pod else {}
        conditions = {"ready": True, "serving": True, "terminating": False}
        labels = {
            "kubernetes.io/service-name": at.service,
            "endpointslice.kubernetes.io/managed-by": "accelkit.io",
            "app.kubernetes.io/part-of": "accelkit",
        }
        return {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {**metadata, "labels": labels},
            "addressType": f"IPv{ipaddress.ip_address(at.address).version}",
            "endpoints": [{"addresses": [at.address], "conditions": conditions, **target}],
            "ports": [{"name": "https", "port": at.port, "protocol": "TCP"}],
        }
