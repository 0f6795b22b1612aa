"""Reasons why a check with a pod did not pass, with the next action for each one."""

from __future__ import annotations

from typing import Final, Literal

from accelkit.enablement.reasons import NEXT_ACTIONS as OF_STAGES
from accelkit.enablement.reasons import StageReason

# Reasons that prevent a check but do not concern the node's cards.
_Node = Literal["CardsUnknown", "HostFull", "KubeletRefused", "NeverChecked", "NodeMissing", "NodeGone", "StateChanged"]
_Run = Literal["ApiUnanswered", "NeedNotPassed", "NoFreeShare", "NotPlaced", "OtherRun", "RecordUnreadable"]
_Pod = Literal["NoImage", "NotEnded", "PodGone", "PodRefused"]
# Reasons that concern the device plugin.
_Offer = Literal["NotAdvertised", "NothingAllocatable", "NotAdmitted", "NotObserved", "KubeletDiffers"]
ShareReason = Literal["CudaFailed", "DeviceNotOpened", "TimedOut", "WorkFailed", "WrongResult"]
_Container = Literal["ContainerNotStarted", "NoDeviceNode", "NoEvidence", "WrongDevice", "WrongLimit"]
# Reasons that concern the extender.
_Ledger = Literal["AssignmentUnreadable", "LedgerDiffers", "LedgerUnread", "NoAssignment"]
_Scheduler = Literal["NotTried", "SchedulerError", "Unschedulable"]
WorkReason = Literal[_Node, _Run, _Pod, _Offer, ShareReason, _Container, _Ledger, _Scheduler]

_AGENT: Final = "kubectl --namespace {namespace} logs --selector app.kubernetes.io/component=node-agent"

# The placeholders are {node} and {namespace}.
NEXT_ACTIONS: Final[dict[WorkReason, str]] = {
    # Reasons that prevent a check but do not concern the node's cards.
    "ApiUnanswered": "Check that the API server answers, then run the check again: "
    "ansible-playbook playbooks/verify.yml -i INVENTORY",
    "CardsUnknown": f"Find out why the node's agent publishes no cards: {_AGENT}",
    "HostFull": "Wait until pods of the node end, or free the missing resource, then run the check again",
    "KubeletRefused": "Find out which resource the node lacks: kubectl describe node {node}; then run the check again",
    "NeverChecked": OF_STAGES[StageReason.NEVER_CHECKED],
    "NeedNotPassed": "Repair the problem that plugin-check reports first",
    "NoFreeShare": "No action is needed: run the check again when a share of the node is free",
    "NoImage": "Load accelkit's image into the node, or push it to a registry that the node reaches (role images)",
    "NodeMissing": OF_STAGES[StageReason.NODE_MISSING],
    "NodeGone": "Exclude the node, or find out why it left the cluster",
    "NotEnded": "Find out why the check pod waits: kubectl --namespace {namespace} describe pods; then run it again",
    "NotPlaced": "Repair the problem that extender-check reports first",
    "OtherRun": "Wait until the other run has ended, or the kubelet has released its pod, then run the check again",
    "PodGone": "Find out which client deletes or evicts pods on the node, then run the check again",
    "PodRefused": "Allow pods of the restricted Pod Security Standard in the namespace {namespace}, then run it again",
    "RecordUnreadable": OF_STAGES[StageReason.RECORD_UNREADABLE],
    "StateChanged": OF_STAGES[StageReason.STATE_CHANGED],
    # Reasons that concern the device plugin.
    "ContainerNotStarted": "Check the container runtime's messages about the pod's devices, such as its CDI files",
    "CudaFailed": "Check whether the driver works on the node: nvidia-smi, dmesg; then accelkit hardware-check there",
    "DeviceNotOpened": "Check whether the driver is loaded on the node, and whether the device node is the driver's",
    "KubeletDiffers": "Compare the kubelet's allocations with the assignments: accelkit audit {node}",
    "NoDeviceNode": "Check whether the driver creates its device nodes on the node: accelkit hardware-check there",
    "NoEvidence": "Check that the image of the check has this version of accelkit, and has sufficient memory",
    "NotAdmitted": f"Find out why the device plugin refused the devices: {_AGENT}",
    "NotAdvertised": f"Find out why the node's device plugin is not registered: {_AGENT}",
    "NotObserved": f"Find out why the node's agent does not publish its kubelet's allocations: {_AGENT}",
    "NothingAllocatable": f"Check why no device is healthy: accelkit inspect {{node}}; or if the agent runs: {_AGENT}",
    "TimedOut": "Check whether the driver hangs: dmesg on the node; then reset the card or reboot the node",
    "WorkFailed": "Read the evidence; report it with the card's model and its driver's version",
    "WrongDevice": "Find out what adds other devices: CDI files, RuntimeClass, the vendor's runtime hook",
    "WrongLimit": "Check that no webhook or runtime changes the container's environment, then accelkit audit {node}",
    "WrongResult": "Exclude the card from placement and have it tested: its computation or its memory is faulty",
    # Reasons that concern the extender.
    "AssignmentUnreadable": "Install the same version of extender and collection, then run site.yml",
    "LedgerDiffers": "Compare the ledger with the assignments: accelkit audit {node}",
    "LedgerUnread": "Let the user read from the extender (playbooks/files/installer.yml), or set stages_extender_url",
    "NoAssignment": "Check that kube-scheduler calls the extender: ansible-playbook playbooks/verify.yml -i INVENTORY",
    "NotTried": "Check that kube-scheduler runs, and that it is the one that stages_scheduler names",
    "SchedulerError": "Check that kube-scheduler reaches the extender: "
    "ansible-playbook playbooks/verify.yml -i INVENTORY",
    "Unschedulable": "Find out why no card of the node fits: accelkit explain POD, accelkit inspect {node}",
}
