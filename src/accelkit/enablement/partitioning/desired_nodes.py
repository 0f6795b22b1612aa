"""Role and pool labels, and taints that exclude other pods, as specified in the settings."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from accelkit.enablement.partitioning.reasons import Conflict, refuse
from accelkit.model.keys import POOL_LABEL, ROLE_LABEL

# This value distinguishes accelkit's taints from other taints with the same key. Tolerations match only the key.
TAINT_VALUE: Final = "accelkit"
# NoSchedule does not affect running pods. NoExecute would evict them, so it is never used.
TAINT_EFFECT: Final = "NoSchedule"


class DesiredNode(msgspec.Struct, frozen=True):
    """The desired state of a node.

    Attributes:
        labels: labels by key.
        taints: taint keys, sorted; each key is the name of an extended resource.
    """

    labels: dict[str, str] = {}
    taints: tuple[str, ...] = ()


def build_desired_nodes(
    known: Collection[str],
    *,
    taints: Sequence[str] = (),
    tainted: Collection[str] = (),
    roles: Mapping[str, Collection[str]] | None = None,
    pools: Mapping[str, Collection[str]] | None = None,
) -> dict[str, DesiredNode]:
    """Return the desired state of each known node; the state is empty for nodes that the settings do not list.

    Args:
        known: names of all nodes.
        taints: resources whose names are the taint keys.
        tainted: names of the nodes that get the taints.
        roles: names of nodes by role.
        pools: names of nodes by pool.

    Raises:
        ConfigurationError: a node does not exist, or is in two roles or pools.
    """
    labels: dict[str, dict[str, str]] = {name: {} for name in known}
    named = {*tainted}
    for key, groups in ((ROLE_LABEL, roles or {}), (POOL_LABEL, pools or {})):
        for value, names in sorted(groups.items()):
            named |= {*names}
            for name in names:
                former = labels.setdefault(name, {}).setdefault(key, value)
                if former != value:
                    raise refuse(Conflict("TwoRoles", f"node {name} has both {key}={former} and {key}={value}"))
    if unknown := sorted(named - {*known}):
        raise refuse(Conflict("UnknownNode", f"cannot find node {', '.join(unknown)}"))
    keys = tuple(sorted({*taints}))
    return {name: DesiredNode(labels[name], keys if name in tainted else ()) for name in sorted(known)}
