"""Source of a node's driver: one of accelkit's modes, or another owner."""

from __future__ import annotations

from typing import Final

from accelkit.enablement.drivers.driver_pods import COMPONENT
from accelkit.enablement.facts.node_facts import NodeFacts
from accelkit.enablement.facts.program_pod import find_program_pod
from accelkit.enablement.facts.unread import Unread
from accelkit.inspection.provided_driver import find_module, read_chosen_kernel

_PACKAGE: Final = "package"


def describe_source(facts: NodeFacts) -> str:
    """Return the mode and the source of the driver, as a sentence.

    Packages are not visible in the cluster, so they are reported only if `driver_mode` is `package`.
    """
    if chosen := read_chosen_kernel(facts.node):
        pods = facts.find_pods(COMPONENT)
        state = "its pods cannot be listed" if isinstance(pods, Unread) else find_program_pod(pods).description
        return f"container: accelkit installs it for kernel {chosen}; {state}"
    if module := find_module(facts.node, facts.namespace):
        return f"kmm: Kernel Module Management loads accelkit's module {module}"
    if facts.holders.driver:
        return f"preinstalled: {facts.holders.driver} installs it"
    if facts.driver_mode == _PACKAGE:
        return f"{_PACKAGE}: accelkit installs the packages on the host"
    return "preinstalled: the node has its own driver, which accelkit did not install"
