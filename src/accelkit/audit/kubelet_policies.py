"""Asks kubelets for their Topology Manager's policy, side by side and until one deadline for all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import UNREADABLE
from accelkit.kube.paths import build_node_path
from accelkit.kube.side_by_side import ask_all
from accelkit.texts import shorten

_AT_ONCE: Final = 16
# Of all kubelets together: each may take its time on purpose.
ASK_SECONDS: Final = 30.0
_MOST_BYTES: Final = 1 << 20


class _Kubelet(msgspec.Struct, rename="camel"):
    topology_manager_policy: str = "none"


class _Configz(msgspec.Struct):
    kubeletconfig: _Kubelet


async def read_policies(
    api: ApiClient, nodes: Iterable[str], *, seconds: float = ASK_SECONDS
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the policy of each kubelet that told it, and why each other one did not; both by node, sorted.

    Args:
        api: an open client.
        nodes: names.
        seconds: for all of them together.
    """
    policies: dict[str, str] = {}
    problems = dict.fromkeys(sorted(nodes), f"no answer in {seconds:g} s")

    async def ask(node: str) -> None:
        try:
            policies[node] = await _read_policy(api, node)
            del problems[node]
        except (ApiError, *UNREADABLE) as exc:
            problems[node] = shorten(str(exc))

    # What was not answered in time stands as such.
    await ask_all(list(problems), ask, at_once=_AT_ONCE, seconds=seconds)
    return dict(sorted(policies.items())), problems


async def _read_policy(api: ApiClient, node: str) -> str:
    try:
        # A kubelet says what its node has it say, as much as it likes.
        answer = await api.get_page(f"{build_node_path(node)}/proxy/configz", query={}, max_bytes=_MOST_BYTES)
    except ApiError as exc:
        if exc.not_found:
            raise ApiError("it has no such page", status=exc.status) from exc
        raise
    return msgspec.json.decode(answer, type=_Configz).kubeletconfig.topology_manager_policy
