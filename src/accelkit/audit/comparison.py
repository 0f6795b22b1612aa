"""Comparison of the ledger, the assignments on pods, the kubelets' allocations and the cards.

Each difference is a finding. Data that exists but cannot be read is also reported as a finding, because it may be
wrong. Data that does not exist or was not requested is reported as a note.
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
from accelkit.inspection.inspection import InspectedNode, Inspection
from accelkit.model.assignment import MOVING, Assignment, Share
from accelkit.model.card import Health
from accelkit.model.inventory import find_unit
from accelkit.model.observed_allocations import Allocations, HeldDevices, HeldPod
from accelkit.model.request import Kind
from accelkit.model.units import format_bytes
from accelkit.texts import count_cards, shorten
from accelkit.vendors.checked_assignments import check_assignment, describe_difference
from accelkit.vendors.pod_reading import CardPod

# With these policies, the kubelet may refuse a pod or choose devices that the plugin does not prefer.
_TOPOLOGY_POLICIES = frozenset({"best-effort", "restricted", "single-numa-node"})


# The memory in bytes, whether the share is a whole card, and the compute in thousandths of a card.
_Amounts = tuple[int, bool, int]


class AuditKind(StrEnum):
    """The kinds of findings, in addition to the kinds that the accounting reports."""

    LEDGER = "ledger_differs"
    REJECTED_ASSIGNMENT = "disbelieved_assignment"
    KUBELET = "kubelet_differs"
    NOT_ALLOCATED = "not_allocated"
    NOT_PUBLISHED = "not_published"
    UNREADABLE = "unreadable_allocations"
    UNREADABLE_LEDGER = "unreadable_ledger"
    BYPASSING = "bound_past_extender"
    UNKNOWN_POD = "unknown_pod"
    UNHEALTHY_CARD = "unhealthy_card_in_use"
    CONSTRAINT = "constraint_broken"
    PROCESS = "strange_process"
    TOPOLOGY = "topology_policy"


# Findings of these kinds are not differences. They report that a comparison was not possible.
UNREADABLE_KINDS = frozenset({AuditKind.UNREADABLE, AuditKind.UNREADABLE_LEDGER})


class AuditFinding(msgspec.Struct, frozen=True):
    """A difference. `pod` has the format `namespace/name`. `card` and `pod` are empty if they do not apply."""

    node: str
    card: str
    pod: str
    kind: str
    message: str


class Audit(msgspec.Struct, frozen=True):
    """The result of an audit: differences, and notes about comparisons that were not possible."""

    findings: list[AuditFinding]
    notes: list[str]


class AuditEvidence(msgspec.Struct, frozen=True):
    """The data that the audit compares.

    Attributes:
        assigned: the nodes, cards and assignments from the API server.
        pods: the bound pods that have cards or an assignment and have not terminated.
        allocations: the allocations that the agent of each shared node publishes; an error if they cannot be read, or
            None if they do not exist.
        ledger: the extender's ledger; an error if it cannot be read, or None if it was not requested.
        policies: the Topology Manager policy of each kubelet that responded.
        notes: notes about the data that could not be read.
    """

    assigned: Inspection
    pods: Sequence[CardPod]
    allocations: Mapping[str, Allocations | AssignmentError | None]
    ledger: Inspection | ServiceError | None
    policies: Mapping[str, str]
    notes: Sequence[str] = ()


def audit(evidence: AuditEvidence, *, ledger_optional: bool = False) -> Audit:
    """Compare all evidence; return the differences.

    Args:
        evidence: the data to compare.
        ledger_optional: whether a ledger that cannot be read is reported as a note instead of a finding.
    """
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
        notes.append("the ledger is not compared, because it was not requested")
    elif isinstance(evidence.ledger, ServiceError):
        message = f"the ledger is not compared: {evidence.ledger}"
        if ledger_optional:
            notes.append(message)
        else:
            findings.append(AuditFinding("", "", "", AuditKind.UNREADABLE_LEDGER, message))
    else:
        findings += _compare_ledger(evidence.assigned, evidence.ledger)
    views = {view.name: view for view in evidence.assigned.nodes}
    checked = [_check_assignment(pod, views[pod.node]) for pod in evidence.pods if pod.node in views]
    findings += [_describe_invalid(each) for each in checked if each.rejection]
    for node, allocations in sorted(evidence.allocations.items()):
        if allocations is None:
            notes.append(f"the kubelet of {node} is not compared: its agent publishes no allocations")
            continue
        if isinstance(allocations, AssignmentError):
            message = (
                f"the kubelet of {node} is not compared: {allocations}; its agent rewrites the allocations every two "
                "minutes, so check the pod of the agent"
            )
            findings.append(AuditFinding(node, "", "", AuditKind.UNREADABLE, message))
            continue
        findings += _compare_kubelet(node, allocations, checked)
        if advisory := [pod for pod in allocations.pods if not pod.enforced_by]:
            notes.append(f"{len(advisory)} of {len(allocations.pods)} pods of {node} have only advisory memory limits")
        if allocations.processes is None:
            notes.append(f"processes on the cards of {node} were not scanned")
    notes += _list_oversubscribed(evidence.assigned)
    findings += _list_unhealthy_cards(evidence.assigned)
    findings += _list_broken_constraints(evidence.pods)
    findings += [
        AuditFinding(
            node, "", "", AuditKind.TOPOLOGY, f"the Topology Manager's policy of {node} is {policy}: {_TOPOLOGY_EFFECT}"
        )
        for node, policy in sorted(evidence.policies.items())
        if policy in _TOPOLOGY_POLICIES
    ]
    return Audit(findings, notes)


@dataclass(frozen=True, slots=True)
class _CheckedPod:
    """A pod with the valid part of its assignment, if any. `rejection` is the reason why the rest is invalid."""

    pod: CardPod
    unit_bytes: int
    assignment: Assignment | None
    rejection: str = ""


def _check_assignment(pod: CardPod, node: InspectedNode) -> _CheckedPod:
    unit_bytes = find_unit(node.unit_bytes or 1, node.former_units, pod.started_at)
    if not isinstance(pod.assignment, Assignment):
        return _CheckedPod(pod, unit_bytes, None, pod.assignment.message if pod.assignment else "")
    capacities = {card.id: card.capacity_bytes for card in node.cards if card.known}
    try:
        known = None if node.unit_bytes is None else capacities
        valid = check_assignment(pod, pod.assignment, known, unit_bytes)
    except AssignmentError as exc:
        return _CheckedPod(pod, unit_bytes, None, exc.message)
    return _CheckedPod(pod, unit_bytes, valid, describe_difference(pod.assignment, valid))


def _describe_invalid(checked: _CheckedPod) -> AuditFinding:
    pod = checked.pod
    message = f"the assignment of pod {pod.ref} is rejected: {checked.rejection}"
    return AuditFinding(pod.node, "", str(pod.ref), AuditKind.REJECTED_ASSIGNMENT, message)


def _list_oversubscribed(inspection: Inspection) -> Iterator[str]:
    for node in inspection.nodes:
        factors = Counter(card.memory_factor for card in node.cards if card.memory_factor != 1)
        for factor, count in sorted(factors.items()):
            yield f"{count_cards(count)} of {node.name}: shares may use {factor:g} times its memory (oversubscription)"


_TOPOLOGY_EFFECT = (
    "its kubelet may refuse pods, or choose cards other than the assigned cards; set topologyManagerPolicy: none"
)


def _compare_ledger(assigned: Inspection, ledger: Inspection) -> Iterator[AuditFinding]:
    written, counted = _list_shares(assigned), _list_shares(ledger)
    for key in sorted(written.keys() | counted.keys()):
        node, pod, container, card = key
        if written.get(key) != counted.get(key):
            in_ledger, in_assignment = _describe_amounts(counted.get(key)), _describe_amounts(written.get(key))
            difference = f"the ledger contains {in_ledger}, but the assignment contains {in_assignment}"
            message = f"pod {pod} [{container}] on card {card} of {node}: {difference}"
            yield AuditFinding(node, card, pod, AuditKind.LEDGER, message)


def _list_shares(inspection: Inspection) -> dict[tuple[str, str, str, str], _Amounts]:
    return {
        (node.name, f"{share.namespace}/{share.pod}", share.container, card.id): (
            *(share.memory_bytes, share.whole, 0 if share.whole else share.compute),
        )
        for node in inspection.nodes
        for card in node.cards
        for share in card.shares
        # Ignore shares that are moving between pods, because this state is temporary.
        if share.container != MOVING
    }


def _describe_amounts(amounts: _Amounts | None) -> str:
    if amounts is None:
        return "nothing"
    memory_bytes, whole, compute = amounts
    amount = "the whole card" if whole else format_bytes(memory_bytes)
    return f"{amount} with compute {compute / 10:g} %" if compute else amount


def _compare_kubelet(node: str, allocations: Allocations, pods: Sequence[_CheckedPod]) -> Iterator[AuditFinding]:
    published = {(pod.namespace, pod.name): pod for pod in allocations.pods}
    if allocations.left_out:
        message = (
            f"not all allocations of {node} are published: {allocations.left_out} pods with many containers exceed the "
            "size limit of its ConfigMap and are not compared"
        )
        yield AuditFinding(node, "", "", AuditKind.NOT_PUBLISHED, message)
    for checked in pods:
        pod = checked.pod
        # A pod without an assignment is already reported by the accounting.
        if pod.node != node or pod.assignment is None:
            continue
        held = published.pop((pod.ref.namespace, pod.ref.name), None)
        if held is None and allocations.left_out:
            continue
        for message in _compare_pod(checked, held):
            kind = AuditKind.KUBELET if held else AuditKind.NOT_ALLOCATED
            yield AuditFinding(node, "", str(pod.ref), kind, message)
    for (namespace, pod_name), found in sorted(published.items()):
        cards = sorted({card for each in found.containers.values() for card in (*each.memory, *each.whole)})
        name = f"{namespace}/{pod_name}"
        message = f"the kubelet of {node} allocated {', '.join(cards)} to pod {name}, which has no assignment"
        yield AuditFinding(node, "", name, AuditKind.UNKNOWN_POD, message)
    for process in allocations.processes or ():
        amount = "" if process.memory_bytes is None else f", {format_bytes(process.memory_bytes)}"
        subject = f"process {process.pid} ({process.command}{amount})"
        message = f"{subject} uses card {process.card} of {node} and does not belong to a pod"
        yield AuditFinding(node, process.card, "", AuditKind.PROCESS, message)


def _compare_pod(checked: _CheckedPod, held: HeldPod | None) -> Iterator[str]:
    pod, assignment = checked.pod, checked.assignment
    if not pod.admitted or assignment is None:
        return
    for container, kind in pod.order:
        shares = assignment.containers.get(container, ())
        # The kubelet does not report the devices of init containers that are not sidecars.
        if kind is Kind.INIT or not shares:
            continue
        devices = held.containers.get(container) if held else None
        assigned = f"pod {pod.ref} [{container}] is assigned {_describe_shares(shares)}"
        if devices is None:
            yield f"{assigned}, but its kubelet does not report any devices"
        elif not _agree(shares, devices, checked.unit_bytes):
            yield f"{assigned}, but its kubelet allocated {_describe_devices(devices)}"


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
    return ", ".join(f"{_describe_amounts((share.memory_bytes, share.whole, 0))} of {share.card}" for share in shares)


def _describe_devices(devices: HeldDevices) -> str:
    parts = [f"{count} devices of {card}" for card, count in sorted(devices.memory.items())]
    return ", ".join([*parts, *(f"card {card}" for card in devices.whole)])
