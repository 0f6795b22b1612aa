"""EndpointSlice of the Service that routes requests to the replica that may bind."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

from accelkit.errors import ApiError
from accelkit.inspection.read_port import PORT_NAME
from accelkit.kube.client import ApiClient
from accelkit.kube.objects import get_if_present
from accelkit.kube.paths import build_collection_path, build_object_path
from accelkit.model.keys import PART_OF_LABELS

log = logging.getLogger(__name__)

_CHECK_SECONDS = 2.0

_Build = Callable[[Mapping[str, object]], dict[str, object]]


@dataclass(frozen=True, slots=True)
class LeaderEndpoint:
    """Address of the leader.

    Args:
        namespace: the namespace of the Service.
        service: the name of a Service without a selector; the EndpointSlice has the same name.
        address: the cluster-internal IP address of this replica.
        port: the port of this replica.
        pod: the name of this pod, which is required because the API server proxies only to pod addresses.
        read_port: the port for read requests; None if there is no read port.
    """

    namespace: str
    service: str
    address: str
    port: int
    pod: str = ""
    read_port: int | None = None


class EndpointWriter:
    """Writer of the EndpointSlice for this replica, and of the Endpoints object if there is a read port.

    Args:
        api: an open client.
        endpoint: the address of this replica.
    """

    def __init__(self, api: ApiClient, endpoint: LeaderEndpoint) -> None:
        self._api = api
        self._endpoint = endpoint

    async def run(self) -> None:
        """Write the address, and restore it after changes by other clients until cancelled. It is not removed."""
        while True:
            try:
                await self.write()
            except (ApiError, msgspec.MsgspecError, LookupError, TypeError) as exc:
                log.warning("cannot write the EndpointSlice of Service %s: %s", self._endpoint.service, exc)
            await asyncio.sleep(_CHECK_SECONDS)

    async def write(self) -> None:
        """Set this replica as the only address of the EndpointSlice and of the Endpoints object.

        Raises:
            ApiError: the API server rejected the write or did not respond.
        """
        at = self._endpoint
        slices = build_collection_path("discovery.k8s.io/v1", "endpointslices", at.namespace)
        await self._write(slices, self._slice, "addressType")
        if at.read_port is not None:
            await self._write(build_collection_path("v1", "endpoints", at.namespace), self._endpoints)

    async def _write(self, collection: str, build: _Build, fixed: str = "") -> None:
        at = self._endpoint
        path = build_object_path(collection, at.service)
        answer = await get_if_present(self._api, path)
        if answer is None:
            services = build_collection_path("v1", "services", at.namespace)
            service = msgspec.json.decode(await self._api.get(build_object_path(services, at.service)))
            owner = {"apiVersion": "v1", "kind": "Service", "name": at.service, "uid": service["metadata"]["uid"]}
            metadata = {"name": at.service, "namespace": at.namespace, "ownerReferences": [owner]}
            await self._api.post(collection, build(metadata))
            log.info("Service %s routes requests to %s", at.service, at.address)
            return
        present = msgspec.json.decode(answer)
        desired = build(present["metadata"])
        if fixed and present[fixed] != desired[fixed]:
            # The field is immutable, so delete the object; the next iteration creates it again.
            await self._api.delete(path)
            return
        if any(present.get(key) != desired[key] for key in ("endpoints", "ports", "subsets") if key in desired):
            await self._api.put(path, desired)
            log.info("Service %s routes requests to %s", at.service, at.address)

    def _target(self) -> dict[str, object]:
        at = self._endpoint
        return {"targetRef": {"kind": "Pod", "namespace": at.namespace, "name": at.pod}} if at.pod else {}

    def _slice(self, metadata: Mapping[str, object]) -> dict[str, object]:
        at = self._endpoint
        labels = {
            "kubernetes.io/service-name": at.service,
            "endpointslice.kubernetes.io/managed-by": "accelkit.io",
            **PART_OF_LABELS,
        }
        return {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {**metadata, "labels": labels},
            "addressType": f"IPv{ipaddress.ip_address(at.address).version}",
            "endpoints": [{"addresses": [at.address], "conditions": {"ready": True}, **self._target()}],
            "ports": [
                {"name": "https", "port": at.port, "protocol": "TCP"},
                *([self._read_port()] if at.read_port is not None else []),
            ],
        }

    def _endpoints(self, metadata: Mapping[str, object]) -> dict[str, object]:
        # The API server's proxy for the read port needs this object, because up to Kubernetes 1.36, the proxy does not
        # read EndpointSlices.
        labels = {"endpointslice.kubernetes.io/skip-mirror": "true", **PART_OF_LABELS}
        addresses = [{"ip": self._endpoint.address, **self._target()}]
        return {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": {**metadata, "labels": labels},
            "subsets": [{"addresses": addresses, "ports": [self._read_port()]}],
        }

    def _read_port(self) -> dict[str, object]:
        return {"name": PORT_NAME, "port": self._endpoint.read_port, "protocol": "TCP"}
