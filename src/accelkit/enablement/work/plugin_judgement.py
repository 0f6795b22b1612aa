"""Evaluation of the device plugin, based on the result of a check pod's container and the kubelet's allocation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from accelkit.enablement.work.device_patterns import find_wrong_node, find_wrong_variable
from accelkit.enablement.work.findings import Finding, failed, passed, unknown
from accelkit.enablement.work.node_view import CheckedNode
from accelkit.enablement.work.pod_board import PodSnapshot
from accelkit.enablement.work.pods import CHECK, CheckPod
from accelkit.enablement.work.reasons import NEXT_ACTIONS, WorkReason
from accelkit.enablement.work.share_check.evidence import ShareEvidence, decode_evidence
from accelkit.enablement.work.sides import View
from accelkit.errors import ApiError, AssignmentError, ServiceError
from accelkit.kube.views.pod import Terminated
from accelkit.model.assignment import Share
from accelkit.model.card import Card
from accelkit.model.units import format_bytes
from accelkit.vendors.profiles import Profile, load_usable_profiles

NO_IMAGE: Final = frozenset({"ErrImageNeverPull", "ErrImagePull", "ImagePullBackOff", "InvalidImageName"})
# The reason that kubelets set if a device plugin rejects a pod, or if the pod's devices are missing.
_NOT_ADMITTED: Final = "UnexpectedAdmissionError"
_NVIDIA_IDENTITY: Final = "GPU-"


def judge_container(node: CheckedNode, snapshot: PodSnapshot, share: Share) -> Finding:
    """Return the result from the container of a placed pod.

    Args:
        node: the node of the pod.
        snapshot: the last observed state of the pod.
        share: the assigned share.
    """
    pod = snapshot.pod
    ended = pod.check.terminated if pod else None
    if pod is None or ended is None:
        return _judge_unended(node, snapshot)
    try:
        evidence = decode_evidence(ended.message)
    except ServiceError as exc:
        return failed("NoEvidence", f"the container on {node.name} {_describe_end(ended)}: {exc.message}")
    if ended.exit_code or not evidence.passed:
        reason: WorkReason = next((each for each in NEXT_ACTIONS if each == evidence.reason), "WorkFailed")
        return failed(reason, evidence.detail or f"the container on {node.name} {_describe_end(ended)}")
    return _judge_evidence(node, evidence, share, load_usable_profiles().profiles)


def judge_kubelet(node: CheckedNode, pod: CheckPod, share: Share, view: View, work: Finding) -> Finding:
    """Compare the kubelet's allocation with the assignment; if they agree, return the container's result.

    Args:
        node: the node of the pod.
        pod: the check pod.
        share: the assigned share.
        view: the allocations that the node agents publish.
        work: the result of the container.
    """
    if isinstance(view.held, ApiError):
        return unknown("NotObserved", f"the allocations of the kubelet of {node.name} are unknown: {view.held}")
    held = view.held.get(node.name, AssignmentError("its agent does not publish allocations"))
    if isinstance(held, AssignmentError):
        return unknown("NotObserved", f"the allocations of the kubelet of {node.name} are unknown: {held.message}")
    name = (pod.metadata.namespace, pod.metadata.name)
    found = next((each for each in held.pods if (each.namespace, each.name) == name), None)
    if found is None:
        return unknown("NotObserved", f"the agent of {node.name} does not publish the kubelet's allocation for the pod")
    devices = found.containers.get(CHECK)
    if devices is None or devices.whole or dict(devices.memory) != {share.card: 1}:
        gave = ", ".join(f"{count} of {card}" for card, count in sorted((devices.memory if devices else {}).items()))
        return failed(
            "KubeletDiffers", f"the pod is assigned 1 of {share.card}; the kubelet allocated {gave or 'nothing'}"
        )
    return work


def _judge_evidence(
    node: CheckedNode, evidence: ShareEvidence, share: Share, profiles: Mapping[str, Profile]
) -> Finding:
    if evidence.memory_bytes != share.memory_bytes:
        limit = "no memory limit" if evidence.memory_bytes is None else format_bytes(evidence.memory_bytes)
        words = f"the container on {node.name} has {limit}, but its share is {format_bytes(share.memory_bytes)}"
        return failed("WrongLimit", words)
    card = node.cards.get(share.card)
    if card is None:
        return failed("WrongDevice", f"{node.name} does not have the card {share.card}, which is assigned to the pod")
    if (profile := profiles.get(card.vendor)) is not None:
        if wrong := find_wrong_variable(profile, card, evidence.variables):
            return failed("WrongDevice", f"the container on {node.name}: {wrong}")
        if wrong := find_wrong_node(profile, card, evidence.device_nodes):
            words = f"the container on {node.name}: {wrong}"
            return failed("WrongDevice" if evidence.device_nodes else "NoDeviceNode", words)
    if wrong := _find_wrong_identity(card, evidence):
        return failed("WrongDevice", f"the container on {node.name}: {wrong}")
    closed = f"; could not open {', '.join(evidence.closed)} (files of another user)" if evidence.closed else ""
    return passed(f"{format_bytes(share.memory_bytes)} of {card.id} ({card.model}): {evidence.work}{closed}")


def _find_wrong_identity(card: Card, evidence: ShareEvidence) -> str:
    if not evidence.identities or not card.id.startswith(_NVIDIA_IDENTITY) or evidence.identities == (card.id,):
        return ""
    return f"its driver reports {', '.join(evidence.identities)}, but it is assigned {card.id}"


def _judge_unended(node: CheckedNode, snapshot: PodSnapshot) -> Finding:
    """Return the reason why the container of a placed pod has not terminated on its own."""
    pod = snapshot.pod
    if pod is None or (snapshot.gone and not pod.terminal):
        return unknown("PodGone", f"the check pod of {node.name} was deleted before it ended")
    status = pod.status
    if status.phase == "Failed":
        words = f"the kubelet of {node.name} ended the pod: {status.reason or 'Failed'}: {status.message}"
        refused = status.reason == _NOT_ADMITTED or (status.reason.startswith("OutOf") and node.resource in words)
        return failed("NotAdmitted", words) if refused else unknown("KubeletRefused", words)
    waiting = pod.check.waiting
    if waiting is not None and waiting.reason in NO_IMAGE:
        return unknown("NoImage", f"{node.name} cannot pull the image: {waiting.reason}: {waiting.message}")
    if waiting is not None and waiting.reason.endswith("Error"):
        words = f"the container did not start on {node.name}: {waiting.reason}: {waiting.message}"
        return failed("ContainerNotStarted", words)
    detail = f": {waiting.reason} {waiting.message}".rstrip() if waiting is not None else ""
    return unknown(
        "NotEnded", f"the check pod on {node.name} did not end within the time limit ({status.phase}{detail})"
    )


def _describe_end(ended: Terminated) -> str:
    return f"exited with code {ended.exit_code}{f' ({ended.reason})' if ended.reason else ''}"
