"""Why a stage did not pass, as codes that stay, and what a person does about each; docs/stage-reasons.md explains them.

A code names what is the case, not who is to blame. What follows from a stage before is told by that stage alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class StageReason(StrEnum):
    """Closed set of reasons; a stage that passed has none."""

    # Of any stage.
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


_ASK_AGAIN: Final = "Find out why the API server refuses or does not answer, then run `accelkit verify` again"
_CHECK_AGAIN: Final = "Run the check again: ansible-playbook playbooks/verify.yml -i INVENTORY"

# With {node} and {namespace}.
NEXT_ACTIONS: Final[Mapping[StageReason, str]] = MappingProxyType(
    {
        StageReason.NEED_NOT_PASSED: "See the stage that is named",
        StageReason.STATE_CHANGED: _CHECK_AGAIN,
        StageReason.NOT_INSTALLED: "None, unless you want it: see docs/installation.md",
        StageReason.NODES_UNREAD: _ASK_AGAIN,
        StageReason.NODE_MISSING: "Compare the name with `kubectl get nodes`",
        StageReason.NODE_NOT_READY: "Look at its kubelet: kubectl describe node {node}",
        StageReason.NOT_SHARED: "Where its cards are to be shared, run site.yml",
        StageReason.INVENTORY_MISSING: "See the agent's log: kubectl -n {namespace} logs -l "
        "app.kubernetes.io/component=node-agent --prefix",
        StageReason.INVENTORY_UNREADABLE: "Bring agent and package to one version: run site.yml",
        StageReason.NO_CARDS: "Compare `lspci` on the node with docs/hardware.md",
        StageReason.CARDS_MISSING: "Compare `lspci` on the node with `accelkit inspect {node}`; a card that is split "
        "(MIG) counts as several for its vendor",
        StageReason.DRIVER_MISSING: "Load the vendor's driver on the node, and see `dmesg` where it takes no card",
        StageReason.KERNEL_DRIVER_MISMATCH: "Install the driver for the kernel that runs, or start the former kernel",
        StageReason.DRIVER_VERSION_UNKNOWN: "See why the vendor's library does not answer: docs/hardware.md",
        StageReason.CARD_LOST: "Start the node anew; where the card stays away, have it looked at",
        StageReason.CARD_UNHEALTHY: "See docs/health.md; drain the node before a reset",
        StageReason.CARD_HEALTH_UNKNOWN: "See why the agent cannot read it, in its log and in docs/health.md",
        StageReason.RUNTIME_WITHOUT_CDI: "Upgrade the container runtime, or take the specification out of /etc/cdi and "
        "/var/run/cdi",
        StageReason.PODS_UNREAD: _ASK_AGAIN,
        StageReason.AGENT_MISSING: "See why no pod comes: kubectl -n {namespace} describe daemonset -l "
        "app.kubernetes.io/component=node-agent",
        StageReason.AGENT_CRASHES: "See its last words: kubectl -n {namespace} logs --previous, with the pod's name",
        StageReason.AGENT_NOT_READY: "See what it waits for: kubectl -n {namespace} describe pod, with the pod's name",
        StageReason.NOT_ADVERTISED: "See why the device plugin is not registered, in the agent's log: "
        "kubectl -n {namespace} logs -l app.kubernetes.io/component=node-agent --prefix",
        StageReason.NOTHING_ALLOCATABLE: "See the agent's log and the kubelet's, and whether another device plugin has "
        "the name",
        StageReason.UNIT_REFUSED: "Choose a coarser unit: docs/memory-unit.md",
        StageReason.NEVER_CHECKED: _CHECK_AGAIN,
        StageReason.RECORD_UNREADABLE: "Run the check again with the newest version of the collection that is in use, "
        "which writes the annotation accelkit.io/stages anew: ansible-playbook playbooks/verify.yml -i INVENTORY",
        StageReason.CACHES_UNREAD: _ASK_AGAIN,
        StageReason.CACHE_AGENT_NOT_READY: "See its log: kubectl -n {namespace} logs, with the pod's name",
        StageReason.CACHE_NOT_READY: "See its conditions: kubectl describe clustergkmcache, with the cache's name",
        StageReason.MONITORING_UNREAD: "Let the user list podmonitors.monitoring.coreos.com and configmaps there",
        StageReason.METRICS_OFF: "None, unless you want them: set accelkit_metrics_port and run site.yml",
        StageReason.METRICS_UNREAD: "Let the user get pods/proxy in {namespace}, and the API server reach the port "
        "metrics of its pods",
        StageReason.METRICS_MISSING: "See the agent's log: kubectl -n {namespace} logs -l "
        "app.kubernetes.io/component=node-agent --prefix",
        StageReason.LABEL_MISSING: "Find out which program takes it away, and let only one of both write it; the agent "
        "writes it again within a minute",
        StageReason.LABELS_UNREADABLE: "Take the annotation accelkit.io/labels off the node; its agent writes it anew",
    }
)
