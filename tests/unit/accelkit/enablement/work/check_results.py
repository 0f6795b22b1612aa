"""What checks of nodes found, in short."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from accelkit.enablement.work.run import Results
from accelkit.model.stage import Stage

PASSED: Final = (("pass", ""), ("pass", ""))


def outcomes(found: Mapping[str, Results], node: str = "a") -> tuple[tuple[str, str], ...]:
    """Return outcome and reason of both stages on a node."""
    results = found[node]
    return tuple(
        (results[stage].outcome.value, results[stage].reason) for stage in (Stage.PLUGIN_CHECK, Stage.EXTENDER_CHECK)
    )


def evidence(found: Mapping[str, Results], stage: Stage, node: str = "a") -> str:
    """Return what a stage saw on a node."""
    return found[node][stage].evidence
