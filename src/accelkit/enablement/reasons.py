"""Reasons why a stage did not pass, as stable codes, with the next action for each reason.

docs/reference/stage-reasons.md explains the codes.

A code describes a fact, not its cause. Only the first stage that a problem affects reports the problem.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class StageReason(StrEnum):
    """The reasons why a stage did not pass."""

    # All stages
    NEED_NOT_PASSED = "NeedNotPassed"
    STATE_CHANGED = "StateChanged"
    NOT_INSTALLED = "NotInstalled"
    # discover
    NODES_UNREAD = "NodesUnread"
    NODE_MISSING = "NodeMissing"
    NODE_NOT_READY = "NodeNotReady"
    NOT_SHARED = "NotShared"
    INVENTORY_MISSING = "InventoryMissing"
    INVENTORY_UNREADABLE = "InventoryUnreadable"
    NO_CARDS = "NoCards"
    CARDS_MISSING = "CardsMissing"
    # driver, driver-check
    DRIVER_MISSING = "DriverMissing"
    KERNEL_DRIVER_MISMATCH = "KernelDriverMismatch"
    DRIVER_VERSION_UNKNOWN = "DriverVersionUnknown"
    CARD_LOST = "CardLost"
    CARD_UNHEALTHY = "CardUnhealthy"
    CARD_HEALTH_UNKNOWN = "CardHealthUnknown"
    # runtime-hook
    RUNTIME_WITHOUT_CDI = "RuntimeWithoutCdi"
    # device-plugin
    PODS_UNREAD = "PodsUnread"
    AGENT_MISSING = "AgentMissing"
    AGENT_CRASHES = "AgentCrashes"
    AGENT_NOT_READY = "AgentNotReady"
    NOT_ADVERTISED = "NotAdvertised"
    NOTHING_ALLOCATABLE = "NothingAllocatable"
    UNIT_REFUSED = "UnitRefused"
    # plugin-check, extender-check
    NEVER_CHECKED = "NeverChecked"
    RECORD_UNREADABLE = "RecordUnreadable"
    # kernel-cache-check
    CACHES_UNREAD = "CachesUnread"
    CACHE_AGENT_NOT_READY = "CacheAgentNotReady"
    CACHE_NOT_READY = "CacheNotReady"
    # monitoring
    MONITORING_UNREAD = "MonitoringUnread"
    METRICS_OFF = "MetricsOff"
    METRICS_UNREAD = "MetricsUnread"
    METRICS_MISSING = "MetricsMissing"
    # feature-labels
    LABEL_MISSING = "LabelMissing"
    LABELS_UNREADABLE = "LabelsUnreadable"


_CHECK_API_SERVER: Final = (
    "Find out why the API server refuses the request or does not respond, then run `accelkit verify` again"
)
_CHECK_AGAIN: Final = "Run the check again: ansible-playbook playbooks/verify.yml -i INVENTORY"

# The placeholders are {node} and {namespace}.
NEXT_ACTIONS: Final[Mapping[StageReason, str]] = MappingProxyType(
    {
        StageReason.NEED_NOT_PASSED: "Read the result of the stage in the evidence",
        StageReason.STATE_CHANGED: _CHECK_AGAIN,
        StageReason.NOT_INSTALLED: "No action is needed; to install it, read docs/how-to/installation.md",
        StageReason.NODES_UNREAD: _CHECK_API_SERVER,
        StageReason.NODE_MISSING: "Compare the name with `kubectl get nodes`",
        StageReason.NODE_NOT_READY: "Check its kubelet: kubectl describe node {node}",
        StageReason.NOT_SHARED: "To share its cards, run site.yml",
        StageReason.INVENTORY_MISSING: "Read the agent's log: kubectl -n {namespace} logs -l "
        "app.kubernetes.io/component=node-agent --prefix",
        StageReason.INVENTORY_UNREADABLE: "Install the same version of the agent and the package: run site.yml",
        StageReason.NO_CARDS: "Compare `lspci` on the node with docs/reference/hardware.md",
        StageReason.CARDS_MISSING: "Compare `lspci` on the node with `accelkit inspect {node}`; a vendor's tool "
        "counts each MIG instance of a card",
        StageReason.DRIVER_MISSING: "Load the vendor's driver on the node; if the driver rejects a card, read `dmesg`",
        StageReason.KERNEL_DRIVER_MISMATCH: "Install the driver for the running kernel, or boot the previous kernel",
        StageReason.DRIVER_VERSION_UNKNOWN: "Find out why the vendor's library does not respond: read "
        "docs/reference/hardware.md",
        StageReason.CARD_LOST: "Reboot the node; if the card is still missing, have it inspected",
        StageReason.CARD_UNHEALTHY: "Read docs/reference/health.md; drain the node before a reset",
        StageReason.CARD_HEALTH_UNKNOWN: "Find out why the agent cannot read the health: read its log and "
        "docs/reference/health.md",
        StageReason.RUNTIME_WITHOUT_CDI: "Upgrade the container runtime, or remove the specification from /etc/cdi and "
        "/var/run/cdi",
        StageReason.PODS_UNREAD: _CHECK_API_SERVER,
        StageReason.AGENT_MISSING: "Find out why no pod is created: kubectl -n {namespace} describe daemonset -l "
        "app.kubernetes.io/component=node-agent",
        StageReason.AGENT_CRASHES: "Read its previous log: kubectl -n {namespace} logs --previous, with the pod's name",
        StageReason.AGENT_NOT_READY: "Find out why it waits: kubectl -n {namespace} describe pod, with the pod's name",
        StageReason.NOT_ADVERTISED: "Find out from the agent's log why the device plugin is not registered: "
        "kubectl -n {namespace} logs -l app.kubernetes.io/component=node-agent --prefix",
        StageReason.NOTHING_ALLOCATABLE: "Read the logs of the agent and the kubelet; check whether another device "
        "plugin uses the same resource name",
        StageReason.UNIT_REFUSED: "Choose a coarser unit: docs/reference/memory-unit.md",
        StageReason.NEVER_CHECKED: _CHECK_AGAIN,
        StageReason.RECORD_UNREADABLE: "Run the check again with the newest version of the collection in use, "
        "which rewrites the annotation accelkit.io/stages: ansible-playbook playbooks/verify.yml -i INVENTORY",
        StageReason.CACHES_UNREAD: _CHECK_API_SERVER,
        StageReason.CACHE_AGENT_NOT_READY: "Read its log: kubectl -n {namespace} logs, with the pod's name",
        StageReason.CACHE_NOT_READY: "Read its conditions: kubectl describe clustergkmcache, with the cache's name",
        StageReason.MONITORING_UNREAD: "Allow the user to list podmonitors.monitoring.coreos.com and configmaps in "
        "{namespace}",
        StageReason.METRICS_OFF: "No action is needed; to enable metrics, set accelkit_metrics_port and run site.yml",
        StageReason.METRICS_UNREAD: "Allow the user to get pods/proxy in {namespace}, and the API server to connect to "
        "the metrics port of the pods",
        StageReason.METRICS_MISSING: "Read the agent's log: kubectl -n {namespace} logs -l "
        "app.kubernetes.io/component=node-agent --prefix",
        StageReason.LABEL_MISSING: "Find out which program removes the label, and stop it; the agent writes the label "
        "again within a minute",
        StageReason.LABELS_UNREADABLE: "Remove the annotation accelkit.io/labels from the node; its agent rewrites it",
    }
)
