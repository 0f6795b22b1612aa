"""Reasons why a check with a pod did not pass, with the next action for each reason."""

from __future__ import annotations

from typing import Final, Literal

from accelkit.enablement.reasons import NEXT_ACTIONS as OF_STAGES
from accelkit.enablement.reasons import StageReason

# Reasons that prevent a check but are unrelated to the node's cards.
_Node = Literal["CardsUnknown", "HostFull", "KubeletRefused", "NeverChecked", "NodeMissing", "NodeGone", "StateChanged"]
_Run = Literal["ApiUnanswered", "NeedNotPassed", "NoFreeShare", "NotPlaced", "OtherRun", "RecordUnreadable"]
_Pod = Literal["NoImage", "NotEnded", "PodGone", "PodRefused"]
# Reasons about the device plugin.
_Offer = Literal["NotAdvertised", "NothingAllocatable", "NotAdmitted", "NotObserved", "KubeletDiffers"]
ShareReason = Literal["CudaFailed", "DeviceNotOpened", "TimedOut", "WorkFailed", "WrongResult"]
_Container = Literal["ContainerNotStarted", "NoDeviceNode", "NoEvidence", "WrongDevice", "WrongLimit"]
# Reasons about the extender.
_Ledger = Literal["AssignmentUnreadable", "LedgerDiffers", "LedgerUnread", "NoAssignment"]
_Scheduler = Literal["NotTried", "SchedulerError", "Unschedulable"]
WorkReason = Literal[_Node, _Run, _Pod, _Offer, ShareReason, _Container, _Ledger, _Scheduler]

_AGENT: Final = "kubectl --namespace {namespace} logs --selector app.kubernetes.io/component=node-agent"

# The placeholders are {node} and {namespace}.
NEXT_ACTIONS: Final[dict[WorkReason, str]] = {
    # Reasons that prevent a check but are unrelated to the node's cards.
    "ApiUnanswered": "Check that the API server responds, then run the check again: "
    "ansible-playbook playbooks/verify.yml -i INVENTORY",
    "CardsUnknown": f"Find out why the node's agent publishes no cards: {_AGENT}",
    "HostFull": "Wait until pods on the node end, or free the missing resource, then run the check again",
    "KubeletRefused": "Find out which resource the node lacks: kubectl describe node {node}; then run the check again",
    "NeverChecked": OF_STAGES[StageReason.NEVER_CHECKED],
    "NeedNotPassed": "First fix the problem that plugin-check reports",
    "NoFreeShare": "No action is needed; run the check again when the node has a free share",
    "NoImage": "Load accelkit's image into the node, or push it to a registry that the node can reach (role images)",
    "NodeMissing": OF_STAGES[StageReason.NODE_MISSING],
    "NodeGone": "Exclude the node, or find out why it left the cluster",
    "NotEnded": "Find out why the check pod waits: kubectl --namespace {namespace} describe pods; then check again",
    "NotPlaced": "First fix the problem that extender-check reports",
    "OtherRun": "Wait until the other run has ended, or the kubelet has released its pod, then run the check again",
    "PodGone": "Find out which client deletes or evicts pods on the node, then run the check again",
    "PodRefused": "Allow pods of the restricted Pod Security Standard in namespace {namespace}, then check again",
    "RecordUnreadable": OF_STAGES[StageReason.RECORD_UNREADABLE],
    "StateChanged": OF_STAGES[StageReason.STATE_CHANGED],
    # Reasons about the device plugin.
    "ContainerNotStarted": "Check the container runtime's messages about the pod's devices, such as its CDI files",
    "CudaFailed": "Check whether the driver works on the node: nvidia-smi, dmesg, accelkit hardware-check",
    "DeviceNotOpened": "Check whether the driver is loaded on the node, and the device node belongs to the driver",
    "KubeletDiffers": "Compare the kubelet's allocations with the assignments: accelkit audit {node}",
    "NoDeviceNode": "Check whether the driver creates its device nodes: run accelkit hardware-check on the node",
    "NoEvidence": "Check that the check pod's image has this version of accelkit, and that its memory is sufficient",
    "NotAdmitted": f"Find out why the device plugin refused the devices: {_AGENT}",
    "NotAdvertised": f"Find out why the node's device plugin is not registered: {_AGENT}",
    "NotObserved": f"Find out why the node's agent does not publish its kubelet's allocations: {_AGENT}",
    "NothingAllocatable": f"Find out why no device is healthy: accelkit inspect {{node}}; or check the agent: {_AGENT}",
    "TimedOut": "Check whether the driver hangs: dmesg on the node; then reset the card or reboot the node",
    "WorkFailed": "Read the evidence; report it with the card's model and driver version",
    "WrongDevice": "Find out whether CDI files, the RuntimeClass or the vendor's runtime hook add other devices",
    "WrongLimit": "Check that no webhook or runtime changes the container's environment: accelkit audit {node}",
    "WrongResult": "Exclude the card from placement and have it tested: its computation or its memory is faulty",
    # Reasons about the extender.
    "AssignmentUnreadable": "Install the same version of the extender and the collection, then run site.yml",
    "LedgerDiffers": "Compare the ledger with the assignments: accelkit audit {node}",
    "LedgerUnread": "Allow the user to query the extender (playbooks/files/installer.yml), or set stages_extender_url",
    "NoAssignment": "Check that kube-scheduler calls the extender: ansible-playbook playbooks/verify.yml -i INVENTORY",
    "NotTried": "Check that the kube-scheduler with the name in stages_scheduler runs",
    "SchedulerError": "Check that kube-scheduler can reach the extender: "
    "ansible-playbook playbooks/verify.yml -i INVENTORY",
    "Unschedulable": "Find out why no card of the node fits: accelkit explain POD, accelkit inspect {node}",
}
