"""Extender client that uses the API server's service proxy. It requires only a kubeconfig file."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar
from urllib.parse import quote

import msgspec

from accelkit.errors import ApiError, NoExtenderError, ServiceError
from accelkit.inspection.extender_client import Address, is_loopback, query_extender, request_simulation
from accelkit.inspection.inspection import Inspection
from accelkit.inspection.read_port import AUDIENCE, INSPECTOR, TOKEN_HEADER, name_read_port
from accelkit.inspection.simulation import Simulation, SimulationQuestion
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import UNREADABLE
from accelkit.kube.paths import build_collection_path, build_object_path

# The shortest token lifetime that the API server supports, and the age at which the client requests a new token.
_TOKEN_SECONDS: Final = 600
_RENEW_SECONDS: Final = 300
_FROM_API: Final = "read from the API server with --from-api"
# The status codes from an older extender that does not have this endpoint.
_UNKNOWN_QUESTION: Final = frozenset({404, 405})

_T = TypeVar("_T")


class _Token(msgspec.Struct):
    token: str


class _TokenAnswer(msgspec.Struct):
    status: _Token


class _Container(msgspec.Struct):
    args: list[str] = []


class _PodSpec(msgspec.Struct):
    containers: list[_Container]


class _Template(msgspec.Struct):
    spec: _PodSpec


class _DeploymentSpec(msgspec.Struct):
    template: _Template


class _Deployment(msgspec.Struct):
    spec: _DeploymentSpec


class ProxiedExtender:
    """Client for an extender behind the service proxy.

    In the embedded cluster, the API server runs on this machine, and the extender does not have a Service. In this
    case, the client uses the loopback address in the extender's Deployment.

    Args:
        api: an open client for the API server.
        namespace: accelkit's namespace.
        service: the name of the extender's Service.
        option: the command-line option for the namespace, for use in error messages.
        instead: the alternative that error messages suggest if the extender cannot be reached.
    """

    def __init__(
        self, api: ApiClient, namespace: str, service: str, *, option: str = "--namespace", instead: str = _FROM_API
    ) -> None:
        self._api, self._namespace = api, namespace
        self._option, self._instead = option, instead
        services = build_collection_path("v1", "services", namespace)
        self._path = f"{build_object_path(services, name_read_port(service))}/proxy"
        self._deployment_path = build_object_path(build_collection_path("apps/v1", "deployments", namespace), service)
        accounts = build_collection_path("v1", "serviceaccounts", namespace)
        self._token_path = f"{build_object_path(accounts, INSPECTOR)}/token"
        self._token, self._renew_at = "", 0.0

    async def query(self, node: str | None = None) -> Inspection:
        """Return the extender's ledger data for one node or for all nodes.

        Raises:
            NoExtenderError: the namespace does not contain an extender.
            ServiceError: a permission is missing, the extender does not respond, or its response is invalid.
        """
        path = f"{self._path}/inspect" + (f"/{quote(node, safe='')}" if node else "")
        try:
            answer = await self._api.get(path, headers={TOKEN_HEADER: await self._read_token()})
            return msgspec.json.decode(answer, type=Inspection)
        except ApiError as exc:
            return await self._query_on_this_host(exc, lambda at: query_extender(at, node))
        except UNREADABLE as exc:
            raise ServiceError(f"cannot decode {path}: it is not the response of an accelkit extender: {exc}") from exc

    async def simulate(self, question: SimulationQuestion) -> Simulation:
        """Return the extender's simulation for a pod.

        Raises:
            NoExtenderError: the namespace does not contain an extender.
            ServiceError: a permission is missing, the extender does not respond, or its response is invalid.
        """
        path = f"{self._path}/simulate"
        try:
            answer = await self._api.post(path, question, headers={TOKEN_HEADER: await self._read_token()})
            return msgspec.json.decode(answer, type=Simulation)
        except ApiError as exc:
            if exc.status in _UNKNOWN_QUESTION and not exc.reason:
                raise ServiceError(
                    f"cannot explain pods with this version of the extender: {exc.message}",
                    next_step="upgrade the extender to the version of this command with site.yml",
                ) from exc
            return await self._query_on_this_host(exc, lambda at: request_simulation(at, question))
        except UNREADABLE as exc:
            raise ServiceError(f"cannot decode {path}: it is not the response of an accelkit extender: {exc}") from exc

    async def _read_token(self) -> str:
        if time.monotonic() >= self._renew_at:
            request = {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"audiences": [AUDIENCE], "expirationSeconds": _TOKEN_SECONDS},
            }
            answer = await self._api.post(self._token_path, request)
            self._token = msgspec.json.decode(answer, type=_TokenAnswer).status.token
            self._renew_at = time.monotonic() + _RENEW_SECONDS
        return self._token

    async def _query_on_this_host(self, exc: ApiError, query: Callable[[Address], Awaitable[_T]]) -> _T:
        problem = self._explain(exc)
        if isinstance(problem, NoExtenderError) and (url := await self._find_on_this_host()):
            return await query(Address(url))
        raise problem from exc

    async def _find_on_this_host(self) -> str | None:
        if not is_loopback(self._api.server):
            return None
        try:
            answer = await self._api.get(self._deployment_path)
            spec = msgspec.json.decode(answer, type=_Deployment).spec.template.spec
        except (ApiError, *UNREADABLE):
            return None
        args = [argument for container in spec.containers for argument in container.args]
        if "--plain-http" not in args or "--listen" not in args[:-1]:
            return None
        url = f"http://{args[args.index('--listen') + 1]}"
        return url if is_loopback(url) else None

    def _explain(self, exc: ApiError) -> ServiceError:
        if exc.status and not exc.reason:
            # The extender has sent this message.
            return ServiceError(exc.message)
        if exc.not_found:
            return NoExtenderError(
                f"cannot find the extender in namespace {self._namespace}: {exc.message}",
                next_step=f"set its namespace and Service with {self._option} and --service, or {self._instead}",
            )
        if exc.forbidden:
            return ServiceError(
                f"cannot read from the extender: {exc.message}",
                next_step=f"ask an administrator for the Role {INSPECTOR}-user in namespace {self._namespace}, "
                f"or {self._instead}",
            )
        return ServiceError(
            f"cannot reach the extender through {self._api.server}: {exc.message}", next_step=self._instead
        )
