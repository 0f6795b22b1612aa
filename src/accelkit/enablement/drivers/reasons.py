"""Reason codes of drivers, each with what a person does next."""

from __future__ import annotations

from typing import Final

REASONS: Final[dict[str, str]] = {
    # Of a node and its kernel.
    "NodeNotReady": "see why its kubelet does not report (kubectl describe node), then run the playbook again",
    "NodeCordoned": "uncordon it, or name it in accelkit_driver_nodes to have its driver upgraded as it is",
    "KernelUnknown": "wait until its kubelet reports nodeInfo.kernelVersion, then run the playbook again",
    "KernelDriverMismatch": "run site.yml, which records the running kernel and gives the node the driver for it",
    "SystemUnknown": "name the image for this kernel by an entry of kernel_mappings, without ${OS}",
    "TwoSystems": "give these nodes different kernels, or take the nodes of one system out by "
    "accelkit_driver_node_selector",
    # Of images, packages and modules.
    "NotConfigured": "name the vendor in accelkit_driver_vendors",
    "NoDriverImage": "add an entry of kernel_mappings, or image, for this kernel to accelkit_driver_vendors",
    "ImageMissing": "push the image, or give the vendor a build in accelkit_driver_vendors",
    "ImageUnknown": "see that this machine reaches the registry, and that its log-in is given",
    "ImageWillBeBuilt": "nothing; site.yml builds it by a Job once a node runs the kernel",
    "PackageMissing": "bring the package to the repositories of the hosts, or pin another version",
    "PackageUnknown": "reach the hosts (accelkit_node_connection), or ask their package manager for it by hand",
    "HostsOwnDriver": "see on one host whether the driver's module is there for it: modinfo -k KERNEL MODULE",
    "NoModuleManager": "install KMM, or set accelkit_driver_mode to another mode",
    # Of a driver that runs.
    "DriverOwned": "leave it to them; or have them leave the node; accelkit_adopt_nodes: true brings it as well",
    "DriverVersionUnknown": "look at the node agent's log there; nothing is known of the driver until it reports it",
    "DriverOther": "look at the driver's pod or package there, then run playbooks/driver.yml again",
    "DriverMissing": "look at the driver's pod or package there, and at the kernel's log (dmesg)",
    "DriverPodNotReady": "look at the driver's pod there (kubectl describe pod, kubectl logs)",
    "CardUnhealthy": "see the card's health_reason in accelkit inspect NODE, and docs/health.md",
    "CheckFailed": "read the stage's evidence: ansible-playbook playbooks/verify.yml -i INVENTORY",
    # Of an upgrade.
    "RecordUnreadable": "delete the node's annotation accelkit.io/driver-upgrade, and see whether it is to be cordoned",
    "UncordonedByHand": "somebody uncordoned the node meanwhile; run playbooks/driver.yml again to begin anew",
    "PodsRemain": "delete these pods, or have their PodDisruptionBudgets allow it, then run playbooks/driver.yml again",
    "UpgradeFailed": "mend what the evidence says, then run playbooks/driver.yml again",
    "Interrupted": "run playbooks/driver.yml again; it goes on where the last run ended",
    # Of what is to come.
    "Works": "nothing",
    "KubeletTooOld": "upgrade the node's kubelet first",
    "KubeletTooNew": "upgrade the control plane to the kubelet's version first",
    "VersionUnreadable": "write the version as 1.36",
    "StepTooLong": "upgrade the control plane one minor version at a time",
    "StepBack": "no control plane can be downgraded; name a version from its own on",
    "ApiRemoved": "write these objects anew in a version that stays, and tell whoever uses the old one",
    "ApisUnknown": "let the user of this run read /metrics of the API server, which counts who uses old versions",
    "NewerThanKnown": "look at docs/scheduler-versions.md of a newer release of accelkit",
    "GateOff": "switch the feature gate on at kube-apiserver, kube-scheduler and the kubelets before the upgrade",
    "GateMissing": "stay below that version, or remove what needs the feature",
    "DevicesUnknown": "let the user of this run list resourceslices.resource.k8s.io",
    "CachesUnknown": "see that this machine reaches the registry of the caches, and that its log-in is given",
    "CachesUncertain": "try them on one node that has the driver, or upgrade accelkit, which may know more drivers",
    "CachesUseless": "build these caches anew for the driver; until then their pods compile their kernels themselves",
    "CardsUnknown": "let the node agent run there first; without an inventory nobody knows the node's cards",
}
