# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Private to this collection: its interface may change at any time.

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import Any

# If accelkit is missing, _api reports this before the module uses these names.
with suppress(ImportError):
    import msgspec

    from accelkit.audit.bypassing import find_bypassing, find_run_start
    from accelkit.audit.comparison import AuditKind
    from accelkit.audit.evidence import audit_cluster
    from accelkit.errors import ConfigurationError
    from accelkit.inspection.accounting import check
    from accelkit.inspection.inspection import Inspection, assemble, inspect_cluster
    from accelkit.kube.client import ApiClient
    from accelkit.model.units import parse_size


async def inspected(api: ApiClient, nodes: Collection[str]) -> tuple[Inspection, dict[str, Any]]:
    """Return the inspection of the given nodes, or of all nodes with cards, as an object and as plain data."""
    inspection = await inspect_cluster(api)
    if nodes:
        known = {node.name: node for node in inspection.nodes}
        unknown = sorted(set(nodes) - set(known))
        if unknown:
            raise ConfigurationError(
                f"cannot find a node with cards named {', '.join(unknown)}",
                next_step=f"choose among {', '.join(sorted(known)) or 'no nodes'}",
            )
        inspection = assemble([known[name] for name in sorted(set(nodes))], inspection.unit_bytes)
    return inspection, msgspec.to_builtins(inspection)


async def checked(api: ApiClient, nodes: Collection[str], min_free: str | None) -> tuple[list[Any], dict[str, Any]]:
    """Return the findings and the totals of the given nodes, or of all nodes with cards, as plain data."""
    min_free_bytes = parse_size(min_free) if min_free else 0
    inspection, builtins = await inspected(api, nodes)
    pods = {
        (node.name, card.id): sorted({f"{share.namespace}/{share.pod}" for share in card.shares})
        for node in inspection.nodes
        for card in node.cards
    }
    findings = msgspec.to_builtins(check(inspection, min_free_bytes=min_free_bytes))
    return [{**each, "pods": pods.get((each["node"], each["card"]), [])} for each in findings], builtins["totals"]


async def compared(
    api: ApiClient, nodes: Collection[str], namespace: str, seconds: float
) -> tuple[list[Any], list[str], set[tuple[str, str, str]]]:
    """Return the differences between assignments and kubelets that last for `seconds`, and the notes of the audit.

    The last element contains node, card and kind of each finding that lasted as long. `checked` returns the findings of
    the accounting.
    """
    found = await audit_cluster(api, namespace=namespace, seconds=seconds, nodes=frozenset(nodes))
    differences = [each for each in found.findings if each.kind in list(AuditKind)]
    lasting = {(each.node, each.card, str(each.kind)) for each in found.findings}
    return msgspec.to_builtins(differences), [*found.notes], lasting


async def bypassing(api: ApiClient) -> list[Any]:
    """Return the pods that were bound without the extender since the start of the run that holds the Lease."""
    began = await find_run_start(api)
    return [] if began is None else msgspec.to_builtins(await find_bypassing(api, began))
