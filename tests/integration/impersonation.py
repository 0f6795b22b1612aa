"""Clients that act as other users: by impersonation, or with their tokens."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection

AGENT = "system:serviceaccount:accelkit:accelkit-node-agent"
EXTENDER = "system:serviceaccount:accelkit:accelkit-extender"
_NODE = "authentication.kubernetes.io/node-name"


@asynccontextmanager
async def acting_as(
    kubeconfig: Path, user: str, *groups: str, extra: Mapping[str, str] | None = None
) -> AsyncIterator[ApiClient]:
    """A client of this user, with what its token would say beside."""
    headers = [("Impersonate-User", user), *(("Impersonate-Group", group) for group in groups)]
    headers += [(f"Impersonate-Extra-{key.replace('/', '%2f')}", value) for key, value in (extra or {}).items()]
    async with ApiClient(replace(load_connection(kubeconfig), headers=tuple(headers))) as api:
        yield api


def acting_as_agent(kubeconfig: Path, node: str) -> AbstractAsyncContextManager[ApiClient]:
    """The node agent of a node, whether it runs or not."""
    return acting_as(kubeconfig, AGENT, extra={_NODE: node})


def acting_as_kubelet(kubeconfig: Path, node: str) -> AbstractAsyncContextManager[ApiClient]:
    """The kubelet of a node."""
    return acting_as(kubeconfig, f"system:node:{node}", "system:nodes", "system:authenticated")


@asynccontextmanager
async def stealing_tokens(kubeconfigs: Mapping[str, Path]) -> AsyncIterator[Callable[[str], Awaitable[ApiClient]]]:
    """A function that opens a client with the token of an account; the clients are closed at the end."""
    async with AsyncExitStack() as opened:

        async def steal(account: str) -> ApiClient:
            return await opened.enter_async_context(ApiClient(load_connection(kubeconfigs[account])))

        yield steal


async def find_refusal(request: Awaitable[object]) -> str:
    """What the API server says against a request, empty where it is done."""
    try:
        await request
    except ApiError as exc:
        return str(exc)
    return ""


async def is_done(request: Awaitable[object]) -> bool:
    """Return whether the API server does what a request asks for."""
    return not await find_refusal(request)
