"""The stage `runtime-hook`: the container runtime supports the responses from the agent.

By default, the agent returns plain device nodes, which every container runtime supports. If the host has Container
Device Interface (CDI) specifications for its cards, the agent returns CDI names, which old runtimes do not support.
"""

from __future__ import annotations

import re
from typing import Final

from accelkit.enablement.facts.node_facts import NodeFacts
from accelkit.enablement.reasons import StageReason
from accelkit.enablement.stages.results import failed, passed
from accelkit.model.stage import StageResult
from accelkit.texts import list_some

# The first releases that support CDI names, and the first releases that enable them by default.
_FIRST: Final = {"containerd": (1, 7), "cri-o": (1, 23)}
_BY_DEFAULT: Final = {"containerd": (2, 0), "cri-o": (1, 23)}
_RUNTIME: Final = re.compile(r"([a-z-]+)://v?(\d{1,9})\.(\d{1,9})")


def judge_runtime_hook(facts: NodeFacts) -> StageResult:
    """Evaluate whether the container runtime supports the responses from the agent."""
    described, runtime = facts.cards.cdi, facts.node.status.node_info.container_runtime_version
    if not described:
        return passed("containers get plain device nodes, which every runtime supports")
    listed = list_some(described)
    found = _RUNTIME.match(runtime)
    if found is None or found[1] not in _FIRST:
        return passed(
            f"containers get {listed} through CDI from {runtime or 'a runtime that its kubelet does not report'}"
        )
    version = int(found[2]), int(found[3])
    if version < _FIRST[found[1]]:
        evidence = f"the host has CDI specifications of {listed}, but {runtime} does not support CDI names"
        return failed(facts, StageReason.RUNTIME_WITHOUT_CDI, evidence)
    option = "" if version >= _BY_DEFAULT[found[1]] else ", if its option enable_cdi is true"
    return passed(f"containers get {listed} through CDI from {runtime}{option}")
