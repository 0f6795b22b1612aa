"""Access to the extender for `accelkit explain`, either at a URL or through the API server."""

from __future__ import annotations

from typing import Final

from accelkit.inspection.extender_client import (
    INSPECT_API_HINT,
    Address,
    query_extender,
    request_simulation,
)
from accelkit.inspection.inspection import Inspection
from accelkit.inspection.service_proxy import ProxiedExtender
from accelkit.inspection.simulation import Simulation, SimulationQuestion
from accelkit.kube.client import ApiClient

NAMESPACE_OPTION: Final = "--accelkit-namespace"


class Extender:
    """Client for the extender in a cluster.

    Args:
        api: an open client for the API server.
        at: the address of the extender; None to use the service proxy of the API server.
        namespace: accelkit's namespace.
        service: the name of the extender's Service.
    """

    def __init__(self, api: ApiClient, at: Address | None, namespace: str, service: str) -> None:
        self._at = at
        self._proxied = ProxiedExtender(api, namespace, service, option=NAMESPACE_OPTION, instead=INSPECT_API_HINT)

    async def simulate(self, question: SimulationQuestion) -> Simulation:
        """Return the extender's simulation for a pod.

        Raises:
            ServiceError: the cluster does not have an extender, a permission is missing, or the extender does not
                respond.
        """
        return await (self._proxied.simulate(question) if self._at is None else request_simulation(self._at, question))

    async def inspect(self, node: str) -> Inspection:
        """Return the data about a node in the extender's ledger.

        Raises:
            ServiceError: the extender or the node does not exist, the extender does not respond, or a permission is
                missing.
        """
        return await (self._proxied.query(node) if self._at is None else query_extender(self._at, node))
