"""Why a check that does work did not pass, and what a person does about it."""

from __future__ import annotations

from typing import Final

from accelkit.enablement.reasons import NEXT_ACTIONS, StageReason

_AGENT: Final = "kubectl --namespace {namespace} logs --selector app.kubernetes.io/component=node-agent"

# With {node} and {namespace}.
REASONS: Final[dict[str, str]] = {
    # What keeps a node from being checked, and says nothing of its cards.
    "ApiUnanswered": "See that the API server answers, then run the check again: "
    "ansible-playbook playbooks/verify.yml -i INVENTORY",
    "CardsUnknown": f"See why the node's agent publishes no cards: {_AGENT}",
    "HostFull": "Let pods of the node end, or take what else it lacks from them, then run the check again",
    "KubeletRefused": "See what the node lacks: kubectl describe node {node}; then run the check again",
    "NeverChecked": NEXT_ACTIONS[StageReason.NEVER_CHECKED],
    "NeedNotPassed": "Mend what plugin-check says first",
    "NoFreeShare": "Nothing is wrong: run the check again when a share of the node is free",
    "NoImage": "Load accelkit's image into the node, or push it to a registry that the node reaches (role images)",
    "NodeMissing": NEXT_ACTIONS[StageReason.NODE_MISSING],
    "NodeGone": "Leave the node out, or see why it left the cluster",
    "NotEnded": "See what the check pod waits for: kubectl --namespace {namespace} describe pods; then run it again",
    "NotPlaced": "Mend what extender-check says first",
    "OtherRun": "Wait until the other run has ended, or the kubelet has let its pod go, then run the check again",
    "PodGone": "See who deletes or evicts pods on the node, then run the check again",
    "PodRefused": "Let pods of the restricted Pod Security Standard into the namespace {namespace}, then run it again",
    "RecordUnreadable": NEXT_ACTIONS[StageReason.RECORD_UNREADABLE],
    "StateChanged": NEXT_ACTIONS[StageReason.STATE_CHANGED],
    # The device plugin's.
    "ContainerNotStarted": "See what the node's container runtime says of the pod's devices, such as its CDI files",
    "CudaFailed": "See whether the driver works on the node: nvidia-smi, dmesg; then accelkit hardware-check there",
    "DeviceNotOpened": "See whether the driver is loaded on the node, and the device node is the driver's",
    "KubeletDiffers": "Compare what the kubelet holds with the assignments: accelkit audit {node}",
    "NoDeviceNode": "See whether the driver makes its device nodes on the node: accelkit hardware-check there",
    "NoEvidence": "See that the check's image is of this version of accelkit, and has memory enough",
    "NotAdmitted": f"See why the device plugin refused the devices: {_AGENT}",
    "NotAdvertised": f"See why the node's device plugin is not registered: {_AGENT}",
    "NotObserved": f"See why the node's agent does not pass on what its kubelet holds: {_AGENT}",
    "NothingAllocatable": f"See why no device is healthy: accelkit inspect {{node}}; or if the agent runs: {_AGENT}",
    "TimedOut": "See whether the driver hangs: dmesg on the node; then reset the card or reboot the node",
    "WorkFailed": "Read the evidence; report it with the card's model and its driver's version",
    "WrongDevice": "See what gives the container other devices: CDI files, RuntimeClass, the vendor's runtime hook",
    "WrongLimit": "See that no webhook or runtime changes the container's environment, then accelkit audit {node}",
    "WrongResult": "Take the card out of placement and have it tested: it computes or remembers wrongly",
    # The extender's.
    "AssignmentUnreadable": "See that extender and collection are of one version, then run site.yml",
    "LedgerDiffers": "Compare the ledger with the assignments: accelkit audit {node}",
    "LedgerUnread": "Let the user ask the extender (playbooks/files/installer.yml), or set stages_extender_url",
    "NoAssignment": "See that kube-scheduler calls the extender: ansible-playbook playbooks/verify.yml -i INVENTORY",
    "NotTried": "See that kube-scheduler runs, and that it is the one that stages_scheduler names",
    "SchedulerError": "See that kube-scheduler reaches the extender: "
    "ansible-playbook playbooks/verify.yml -i INVENTORY",
    "Unschedulable": "See why no card of the node is given: accelkit explain POD, accelkit inspect {node}",
}
