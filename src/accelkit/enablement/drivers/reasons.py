"""Reasons related to drivers, by subject, with the next action for each reason."""

from __future__ import annotations

from typing import Final, Literal

# Reasons that prevent changes to a node.
Obstacle = Literal["NodeNotReady", "NodeCordoned", "KernelUnknown"]
PlanReason = Literal["KernelDriverMismatch", "SystemUnknown", "TwoSystems", "NotConfigured", "NoDriverImage"]
ImageReason = Literal["ImageMissing", "ImageUnknown", "ImageWillBeBuilt", "PackageMissing", "PackageUnknown"]
HostReason = Literal["HostsOwnDriver", "NoModuleManager", "DriverOwned"]
RunReason = Literal["DriverVersionUnknown", "DriverOther", "DriverMissing", "DriverPodNotReady", "CardUnhealthy"]
Refusal = Literal["NodeNotReady", "RecordUnreadable", "UncordonedByHand", "Interrupted"]
UpgradeReason = Literal[Refusal, "CheckFailed", "PodsRemain", "UpgradeFailed"]
VersionReason = Literal[
    "KubeletTooOld", "KubeletTooNew", "VersionUnreadable", "StepTooLong", "StepBack", "NewerThanKnown"
]
ApiReason = Literal["ApiRemoved", "ApisUnknown", "GateOff", "GateMissing", "DevicesUnknown"]
CacheReason = Literal["CachesUnknown", "CachesUncertain", "CachesUseless", "CardsUnknown"]
FutureReason = Literal["Works", VersionReason, ApiReason, CacheReason]
DriverReason = Literal[Obstacle, PlanReason, ImageReason, HostReason, RunReason, UpgradeReason, FutureReason]

NEXT_ACTIONS: Final[dict[DriverReason, str]] = {
    # Reasons about a node and its kernel.
    "NodeNotReady": "find out why its kubelet does not report (kubectl describe node), then run the playbook again",
    "NodeCordoned": "uncordon it, or add it to accelkit_driver_nodes to upgrade its driver while it is cordoned",
    "KernelUnknown": "wait until its kubelet reports nodeInfo.kernelVersion, then run the playbook again",
    "KernelDriverMismatch": "run site.yml, which records the running kernel and installs the driver for it",
    "SystemUnknown": "add an entry for this kernel to kernel_mappings, with an image that does not contain ${OS}",
    "TwoSystems": "install different kernels on these nodes, or exclude the nodes of one system with "
    "accelkit_driver_node_selector",
    # Reasons about images, packages and modules.
    "NotConfigured": "add the vendor to accelkit_driver_vendors",
    "NoDriverImage": "configure an image for this kernel in accelkit_driver_vendors (kernel_mappings or image)",
    "ImageMissing": "push the image, or add a build for the vendor to accelkit_driver_vendors",
    "ImageUnknown": "check that this machine reaches the registry, and that its credentials are configured",
    "ImageWillBeBuilt": "no action is needed; site.yml builds it with a Job once a node runs the kernel",
    "PackageMissing": "add the package to the repositories of the hosts, or pin another version",
    "PackageUnknown": "connect to the hosts (accelkit_node_connection), or query their package manager manually",
    "HostsOwnDriver": "check on a host whether the driver's module exists for it: modinfo -k KERNEL MODULE",
    "NoModuleManager": "install KMM, or set accelkit_driver_mode to another mode",
    # Reasons about a running driver.
    "DriverOwned": "no action is needed; to install accelkit's driver, remove the other one from the node, or set "
    "accelkit_adopt_nodes: true",
    "DriverVersionUnknown": "check the log of the node's agent; the driver is unknown until the agent reports it",
    "DriverOther": "check the driver pod or package on the node, then run playbooks/driver.yml again",
    "DriverMissing": "check the driver pod or package and the kernel log (dmesg) on the node",
    "DriverPodNotReady": "check the driver pod on the node (kubectl describe pod, kubectl logs)",
    "CardUnhealthy": "read the card's health_reason in accelkit inspect NODE, and docs/reference/health.md",
    "CheckFailed": "read the stage's evidence: ansible-playbook playbooks/verify.yml -i INVENTORY",
    # Reasons about an upgrade.
    "RecordUnreadable": "delete the node's annotation accelkit.io/driver-upgrade, and decide whether to uncordon it",
    "UncordonedByHand": "the node was uncordoned during the upgrade; run playbooks/driver.yml again to restart it",
    "PodsRemain": "delete these pods, or relax their PodDisruptionBudgets, then run playbooks/driver.yml again",
    "UpgradeFailed": "fix the problem that the evidence describes, then run playbooks/driver.yml again",
    "Interrupted": "run playbooks/driver.yml again; it continues where the last run ended",
    # Reasons about future versions.
    "Works": "no action is needed",
    "KubeletTooOld": "upgrade the node's kubelet first",
    "KubeletTooNew": "upgrade the control plane to the kubelet's version first",
    "VersionUnreadable": "write the version in the form 1.36",
    "StepTooLong": "upgrade the control plane one minor version at a time",
    "StepBack": "a control plane cannot be downgraded; specify its current version or a later one",
    "ApiRemoved": "migrate these objects to a supported API version, and inform the users of the old version",
    "ApisUnknown": "allow the user of this run to read /metrics of the API server, which lists deprecated APIs in use",
    "NewerThanKnown": "read docs/reference/scheduler-versions.md of a newer release of accelkit",
    "GateOff": "enable the feature gate in kube-apiserver, kube-scheduler and the kubelets before the upgrade",
    "GateMissing": "do not upgrade to that version, or remove the workloads that need the feature",
    "DevicesUnknown": "allow the user of this run to list resourceslices.resource.k8s.io",
    "CachesUnknown": "check that this machine reaches the registry of the caches, and that it has credentials for it",
    "CachesUncertain": "test them on one node that has the driver, or upgrade accelkit, which may support more drivers",
    "CachesUseless": "rebuild these caches for the driver; until then, their pods compile the kernels",
    "CardsUnknown": "run the node agent on the node first; the node's cards are unknown without an inventory",
}
