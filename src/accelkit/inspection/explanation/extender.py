"""The extender as `accelkit explain` reaches it: at a URL, else through the API server, else on this machine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from accelkit.errors import NoExtenderError
from accelkit.inspection.extender_client import (
    HOST_EXTENDER,
    SHOW_FREE,
    Address,
    ask_extender,
    ask_what_if,
    is_loopback,
)
from accelkit.inspection.inspection import Inspection
from accelkit.inspection.service_proxy import ProxiedExtender
from accelkit.inspection.simulation import Simulation, SimulationQuestion
from accelkit.kube.client import ApiClient

NAMESPACE_OPTION: Final = "--accelkit-namespace"

_T = TypeVar("_T")


class Extender:
    """The extender of a cluster.

    Args:
        api: an open client of the API server.
        at: where it answers; None for behind the API server.
        namespace: where accelkit runs.
        service: the name of the extender's Service.
    """

    def __init__(self, api: ApiClient, at: Address | None, namespace: str, service: str) -> None:
        self._server, self._at = api.server, at
        self._proxied = ProxiedExtender(api, namespace, service, option=NAMESPACE_OPTION, instead=SHOW_FREE)

    async def simulate(self, question: SimulationQuestion) -> Simulation:
        """Return what it would do with a pod.

        Raises:
            ServiceError: there is none, we lack a right, or it does not answer.
        """
        return await self._ask(lambda: self._proxied.simulate(question), lambda direct: ask_what_if(direct, question))

    async def inspect(self, node: str) -> Inspection:
        """Return what its ledger holds of a node.

        Raises:
            ServiceError: there is none, we lack a right, it does not answer, or knows no such node.
        """
        return await self._ask(lambda: self._proxied.ask(node), lambda direct: ask_extender(direct, node))

    async def _ask(self, proxied: Callable[[], Awaitable[_T]], directly: Callable[[Address], Awaitable[_T]]) -> _T:
        if self._at is not None:
            return await directly(self._at)
        try:
            return await proxied()
        except NoExtenderError:
            # Without a Service the extender serves the loopback address of its host, as on the embedded cluster.
            if not is_loopback(self._server):
                raise
            return await directly(Address(HOST_EXTENDER))
