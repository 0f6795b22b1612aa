"""Tables in the formats of other tools, for scripts that parse the output of these tools.

This module does not use a table library, because its output must be identical to the output of the other tool.
"""

from __future__ import annotations

from accelkit.inspection.inspection import InspectedNode, Inspection
from accelkit.model.units import format_unit

_GAP = "  "


def build_aliyun_table(inspection: Inspection) -> str:
    """Return a table like that of `kubectl inspect gpushare`, with amounts in memory units and one column per card."""
    unit = inspection.unit_bytes or 2**30
    most = max((len(node.cards) for node in inspection.nodes), default=0)
    name = format_unit(unit)
    cards = [f"GPU{number}(Allocated/Total)" for number in range(most)]
    rows = [["NAME", "IPADDRESS", *cards, f"GPU Memory({name.removeprefix('1')})"]]
    rows += [_row(node, most, unit) for node in inspection.nodes]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [_GAP.join(cell.ljust(widths[column]) for column, cell in enumerate(row)).rstrip() for row in rows]
    used, total = inspection.totals.used_bytes // unit, inspection.totals.capacity_bytes // unit
    percent = f"{100 * used // total}%" if total else "0%"
    ruler = "-" * max(map(len, lines))
    return "\n".join([*lines, ruler, "Allocated/Total GPU Memory In Cluster:", f"{used}/{total} ({percent})"])


def _row(node: InspectedNode, most: int, unit: int) -> list[str]:
    cards = [f"{card.used_bytes // unit}/{card.capacity_bytes // unit}" for card in node.cards]
    sums = f"{node.totals.used_bytes // unit}/{node.totals.capacity_bytes // unit}"
    return [node.name, node.address or "-", *cards, *("-" for _ in range(most - len(cards))), sums]
