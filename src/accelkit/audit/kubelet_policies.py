"""Reader of the kubelets' Topology Manager policies. The kubelets are queried concurrently, with one timeout."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import UNREADABLE
from accelkit.kube.paths import build_node_path
from accelkit.kube.side_by_side import request_all
from accelkit.texts import shorten

_AT_ONCE: Final = 16
# The total timeout for all kubelets, because a malicious kubelet may delay its response.
REQUEST_SECONDS: Final = 30.0
_MOST_BYTES: Final = 1 << 20


class _Kubelet(msgspec.Struct, rename="camel"):
    topology_manager_policy: str = "none"


class _Configz(msgspec.Struct):
    kubeletconfig: _Kubelet


async def read_policies(
    api: ApiClient, nodes: Iterable[str], *, seconds: float = REQUEST_SECONDS
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the policies of the kubelets that responded, and the errors for all other kubelets, sorted by node.

    Args:
        api: an open client.
        nodes: names of nodes.
        seconds: the total timeout for all kubelets.
    """
    policies: dict[str, str] = {}
    problems = dict.fromkeys(sorted(nodes), f"no response within {seconds:g} s")

    async def read(node: str) -> None:
        try:
            policies[node] = await _read_policy(api, node)
            del problems[node]
        except (ApiError, *UNREADABLE) as exc:
            problems[node] = shorten(str(exc))

    # The problem for a kubelet has its initial value until the kubelet responds.
    await request_all(list(problems), read, at_once=_AT_ONCE, seconds=seconds)
    return dict(sorted(policies.items())), problems


async def _read_policy(api: ApiClient, node: str) -> str:
    try:
        # Limit the size, because the node controls the response of its kubelet.
        answer = await api.get_page(f"{build_node_path(node)}/proxy/configz", query={}, max_bytes=_MOST_BYTES)
    except ApiError as exc:
        if exc.not_found:
            raise ApiError("it does not serve /configz", status=exc.status) from exc
        raise
    return msgspec.json.decode(answer, type=_Configz).kubeletconfig.topology_manager_policy
