"""Compares what the ledger, the assignments on pods, the kubelets and the cards say.

Whatever differs is a finding. What nobody could be asked about is a note: unknown is neither in order nor out of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from accelkit.audit.written_sums import list_overfull_cards
from accelkit.errors import AssignmentError, ServiceError
from accelkit.inspection.accounting import FindingKind, check
from accelkit.inspection.inspection import Inspection, NodeView
from accelkit.model.assignment import MOVING, Assignment, Share
from accelkit.model.card import Health
from accelkit.model.inventory import find_unit
from accelkit.model.observed_allocations import Allocations, HeldDevices, HeldPod
from accelkit.model.request import Kind
from accelkit.model.units import format_bytes
from accelkit.texts import count_cards, shorten
from accelkit.vendors.checked_assignments import check_assignment, describe_difference
from accelkit.vendors.pod_reading import CardPod

# Policies under which the kubelet may choose other devices than it is offered, or refuse a pod.
_TOPOLOGY_POLICIES = frozenset({"best-effort", "restricted", "single-numa-node"})


# Memory, whether it is the whole card, thousandths of its compute.
_Held = tuple[int, bool, int]


class AuditKind(StrEnum):
    """Closed set of what may differ, beside the findings of accounting."""

    LEDGER = "ledger_differs"
    DISBELIEVED = "disbelieved_assignment"
    KUBELET = "kubelet_differs"
    NOT_ALLOCATED = "not_allocated"
    NOT_PUBLISHED = "not_published"
    UNREADABLE = "unreadable_allocations"
    BYPASSING = "bound_past_extender"
    UNKNOWN_POD = "unknown_pod"
    UNHEALTHY_CARD = "unhealthy_card_in_use"
    CONSTRAINT = "constraint_broken"
    PROCESS = "strange_process"
    TOPOLOGY = "topology_policy"


class AuditFinding(msgspec.Struct, frozen=True):
    """One divergence; `pod` as `namespace/name`, `card` and `pod` empty where none is meant."""

    node: str
    card: str
    pod: str
    kind: str
    message: str


class Audit(msgspec.Struct, frozen=True):
    """What differs, and what could not be compared."""

    findings: list[AuditFinding]
    notes: list[str]


class AuditEvidence(msgspec.Struct, frozen=True):
    """What each side says.

    Attributes:
        assigned: nodes, cards and assignments, from the API server.
        pods: the pods with cards or an assignment that are bound and have not ended.
        allocations: what the agent of each shared node passes on of its kubelet; an error where that cannot be read,
            None where it passes nothing on.
        ledger: what the extender holds; why it does not tell; None where it was not asked.
        policies: the Topology Manager's policy of each kubelet that was asked.
        notes: what could not be asked.
    """

    assigned: Inspection
    pods: Sequence[CardPod]
    allocations: Mapping[str, Allocations | AssignmentError | None]
    ledger: Inspection | ServiceError | None
    policies: Mapping[str, str]
    notes: Sequence[str] = ()


def audit(evidence: AuditEvidence) -> Audit:
    """Compare all sides."""
    findings = [
        AuditFinding(found.node, found.card, "", found.kind, found.message) for found in check(evidence.assigned)
    ]
    over = {(found.node, found.card) for found in findings if found.kind == FindingKind.OVER_CAPACITY}
    findings += [
        AuditFinding(node, card, "", FindingKind.OVER_CAPACITY, message)
        for node, card, message in list_overfull_cards(evidence.assigned.nodes, evidence.pods)
        if (node, card) not in over
    ]
    notes = list(evidence.notes)
    if evidence.ledger is None:
        notes.append("the extender was not asked; give --extender to compare its ledger")
    elif isinstance(evidence.ledger, ServiceError):
        notes.append(f"the ledger is not compared: {evidence.ledger}")
    else:
        findings += _compare_ledger(evidence.assigned, evidence.ledger)
    views = {view.name: view for view in evidence.assigned.nodes}
    believed = [_believe(pod, views[pod.node]) for pod in evidence.pods if pod.node in views]
    findings += [_describe_disbelief(each) for each in believed if each.disbelieved]
    for node, allocations in sorted(evidence.allocations.items()):
        if allocations is None:
            notes.append(f"the kubelet of {node} is not compared: its agent passes nothing on")
            continue
        if isinstance(allocations, AssignmentError):
            message = (
                f"the kubelet of {node} is not compared: {allocations}; its agent rewrites them every two minutes: "
                "look at the agent's pod there"
            )
            findings.append(AuditFinding(node, "", "", AuditKind.UNREADABLE, message))
            continue
        findings += _compare_kubelet(node, allocations, believed)
        if advisory := [pod for pod in allocations.pods if not pod.enforced_by]:
            notes.append(
                f"{len(advisory)} of {len(allocations.pods)} pods of {node} are kept within their memory by none"
            )
        if allocations.processes is None:
            notes.append(f"processes on the cards of {node} were not looked at")
    notes += _list_oversubscribed(evidence.assigned)
    findings += _list_unhealthy_cards(evidence.assigned)
    findings += _list_broken_constraints(evidence.pods)
    findings += [
        AuditFinding(
            node, "", "", AuditKind.TOPOLOGY, f"the Topology Manager's policy of {node} is {policy}: {_CONFLICT}"
        )
        for node, policy in sorted(evidence.policies.items())
        if policy in _TOPOLOGY_POLICIES
    ]
    return Audit(findings, notes)


@dataclass(frozen=True, slots=True)
class _Believed:
    """A pod with what is believed of its assignment, None for nothing; `disbelieved` says what is not."""

    pod: CardPod
    unit_bytes: int
    assignment: Assignment | None
    disbelieved: str = ""


def _believe(pod: CardPod, node: NodeView) -> _Believed:
    unit_bytes = find_unit(node.unit_bytes or 1, node.former_units, pod.started_at)
    if not isinstance(pod.assignment, Assignment):
        return _Believed(pod, unit_bytes, None, pod.assignment.message if pod.assignment else "")
    capacities = {card.id: card.capacity_bytes for card in node.cards if card.known}
    try:
        known = None if node.unit_bytes is None else capacities
        believed = check_assignment(pod, pod.assignment, known, unit_bytes)
    except AssignmentError as exc:
        return _Believed(pod, unit_bytes, None, exc.message)
    return _Believed(pod, unit_bytes, believed, describe_difference(pod.assignment, believed))


def _describe_disbelief(believed: _Believed) -> AuditFinding:
    pod = believed.pod
    message = f"the assignment of pod {pod.ref} is not believed: {believed.disbelieved}"
    return AuditFinding(pod.node, "", str(pod.ref), AuditKind.DISBELIEVED, message)


def _list_oversubscribed(inspection: Inspection) -> Iterator[str]:
    for node in inspection.nodes:
        factors = Counter(card.memory_factor for card in node.cards if card.memory_factor != 1)
        for factor, count in sorted(factors.items()):
            yield f"{count_cards(count)} of {node.name}: shares may take {factor:g} times its memory (oversubscription)"


_CONFLICT = "its kubelet may choose other cards than were assigned, or refuse pods; set topologyManagerPolicy: none"


def _compare_ledger(assigned: Inspection, ledger: Inspection) -> Iterator[AuditFinding]:
    ours, theirs = _shares(assigned), _shares(ledger)
    for key in sorted(ours.keys() | theirs.keys()):
        node, pod, container, card = key
        if ours.get(key) != theirs.get(key):
            counted, written = _describe_held(theirs.get(key)), _describe_held(ours.get(key))
            difference = f"the ledger counts {counted}, the assignment says {written}"
            message = f"pod {pod} [{container}] on card {card} of {node}: {difference}"
            yield AuditFinding(node, card, pod, AuditKind.LEDGER, message)


def _shares(inspection: Inspection) -> dict[tuple[str, str, str, str], _Held]:
    return {
        (node.name, f"{share.namespace}/{share.pod}", share.container, card.id): (
            *(share.memory_bytes, share.whole, 0 if share.whole else share.compute),
        )
        for node in inspection.nodes
        for card in node.cards
        for share in card.shares
        # What changes hands just now is gone in a moment.
        if share.container != MOVING
    }


def _describe_held(held: _Held | None) -> str:
    if held is None:
        return "nothing"
    memory_bytes, whole, compute = held
    amount = "the whole card" if whole else format_bytes(memory_bytes)
    return f"{amount} with compute {compute / 10:g} %" if compute else amount


def _compare_kubelet(node: str, allocations: Allocations, pods: Sequence[_Believed]) -> Iterator[AuditFinding]:
    shown = {(pod.namespace, pod.name): pod for pod in allocations.pods}
    if allocations.left_out:
        message = (
            f"not all allocations of {node} are published: {allocations.left_out} pods with many containers found no "
            "room in its ConfigMap and are not compared"
        )
        yield AuditFinding(node, "", "", AuditKind.NOT_PUBLISHED, message)
    for believed in pods:
        pod = believed.pod
        # A pod without an assignment is reported by accounting.
        if pod.node != node or pod.assignment is None:
            continue
        held = shown.pop((pod.ref.namespace, pod.ref.name), None)
        if held is None and allocations.left_out:
            continue
        for message in _compare_pod(believed, held):
            kind = AuditKind.KUBELET if held else AuditKind.NOT_ALLOCATED
            yield AuditFinding(node, "", str(pod.ref), kind, message)
    for (namespace, pod_name), found in sorted(shown.items()):
        cards = sorted({card for each in found.containers.values() for card in (*each.memory, *each.whole)})
        name = f"{namespace}/{pod_name}"
        message = f"the kubelet of {node} holds {', '.join(cards)} for pod {name}, which has no assignment"
        yield AuditFinding(node, "", name, AuditKind.UNKNOWN_POD, message)
    for process in allocations.processes or ():
        amount = "" if process.memory_bytes is None else f", {format_bytes(process.memory_bytes)}"
        subject = f"process {process.pid} ({process.command}{amount})"
        message = f"{subject} is on card {process.card} of {node} and belongs to no pod"
        yield AuditFinding(node, process.card, "", AuditKind.PROCESS, message)


def _compare_pod(believed: _Believed, held: HeldPod | None) -> Iterator[str]:
    pod, assignment = believed.pod, believed.assignment
    if not pod.admitted or assignment is None:
        return
    for container, kind in pod.order:
        shares = assignment.containers.get(container, ())
        # Of plain init containers the kubelet shows nothing.
        if kind is Kind.INIT or not shares:
            continue
        devices = held.containers.get(container) if held else None
        assigned = f"pod {pod.ref} [{container}] is assigned {_describe_shares(shares)}"
        if devices is None:
            yield f"{assigned}; its kubelet holds nothing for it"
        elif not _agree(shares, devices, believed.unit_bytes):
            yield f"{assigned}; its kubelet gave {_describe_devices(devices)}"


def _agree(shares: Sequence[Share], devices: HeldDevices, unit_bytes: int) -> bool:
    shared = {share.card: share.memory_bytes for share in shares if not share.whole}
    memory = {card: number * unit_bytes for card, number in devices.memory.items()}
    return memory == shared and sorted(devices.whole) == sorted(share.card for share in shares if share.whole)


def _list_unhealthy_cards(assigned: Inspection) -> Iterator[AuditFinding]:
    for node in assigned.nodes:
        for card in node.cards:
            if card.health == Health.UNHEALTHY and card.shares:
                pods = ", ".join(sorted({f"{share.namespace}/{share.pod}" for share in card.shares}))
                message = f"card {card.id} of {node.name} is unhealthy and used by {pods}"
                yield AuditFinding(node.name, card.id, "", AuditKind.UNHEALTHY_CARD, message)


def _list_broken_constraints(pods: Sequence[CardPod]) -> Iterator[AuditFinding]:
    for pod in pods:
        if isinstance(pod.assignment, Assignment) and pod.assignment.broken:
            message = f"pod {pod.ref}: {shorten('; '.join(pod.assignment.broken))}"
            yield AuditFinding(pod.node, "", str(pod.ref), AuditKind.CONSTRAINT, message)


def _describe_shares(shares: Sequence[Share]) -> str:
    return ", ".join(f"{_describe_held((share.memory_bytes, share.whole, 0))} of {share.card}" for share in shares)


def _describe_devices(devices: HeldDevices) -> str:
    parts = [f"{count} devices of {card}" for card, count in sorted(devices.memory.items())]
    return ", ".join([*parts, *(f"card {card}" for card in devices.whole)])
