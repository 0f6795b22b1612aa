"""Enablement stages: their prerequisites, and their results for a certain state of a node."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from accelkit.texts import shorten

STAGES_VERSION: Final = 1
MAX_STAGES_BYTES: Final = 16 * 1024
MAX_EVIDENCE: Final = 400


class Stage(StrEnum):
    """Steps from a bare node to a monitored node, in order."""

    DISCOVER = "discover"
    DRIVER = "driver"
    DRIVER_CHECK = "driver-check"
    RUNTIME_HOOK = "runtime-hook"
    DEVICE_PLUGIN = "device-plugin"
    PLUGIN_CHECK = "plugin-check"
    EXTENDER_CHECK = "extender-check"
    KERNEL_CACHE_CHECK = "kernel-cache-check"
    MONITORING = "monitoring"
    FEATURE_LABELS = "feature-labels"


class Outcome(StrEnum):
    """Outcome of a stage on a node, from best to worst."""

    PASS = "pass"  # noqa: S105 - an outcome, not a password
    SKIPPED = "skipped"
    STALE = "stale"
    UNKNOWN = "unknown"
    FAIL = "fail"


# Monitoring and labels require advertised cards. They do not require the later checks, because they do not need a pod
# that uses the cards.
NEEDS: Final[dict[Stage, tuple[Stage, ...]]] = {
    Stage.DISCOVER: (),
    Stage.DRIVER: (Stage.DISCOVER,),
    Stage.DRIVER_CHECK: (Stage.DRIVER,),
    Stage.RUNTIME_HOOK: (Stage.DRIVER_CHECK,),
    Stage.DEVICE_PLUGIN: (Stage.RUNTIME_HOOK,),
    Stage.PLUGIN_CHECK: (Stage.DEVICE_PLUGIN,),
    Stage.EXTENDER_CHECK: (Stage.PLUGIN_CHECK,),
    Stage.KERNEL_CACHE_CHECK: (Stage.EXTENDER_CHECK,),
    Stage.MONITORING: (Stage.DEVICE_PLUGIN,),
    Stage.FEATURE_LABELS: (Stage.DEVICE_PLUGIN,),
}


class NodeState(msgspec.Struct, frozen=True):
    """Node state for which the results of checks are valid. Unknown fields are empty.

    Attributes:
        boot_id: the boot ID of the running kernel, `status.nodeInfo.bootID`.
        kernel: the kernel release, `status.nodeInfo.kernelVersion`.
        drivers: the versions of the cards' drivers, sorted and joined by commas.
        cards: the first 16 hexadecimal digits of a hash of the sorted card identities.
    """

    boot_id: str = ""
    kernel: str = ""
    drivers: str = ""
    cards: str = ""


class StageResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """Result of a stage on a node.

    Attributes:
        outcome: the outcome.
        reason: a CamelCase code from `accelkit.enablement.reasons`; empty if the outcome is `pass`.
        evidence: the observation, as a sentence of at most `MAX_EVIDENCE` characters.
        next_action: the next step for the administrator; empty if the outcome is `pass`.
        found_at: the time of the check, in Unix seconds.
        seconds: the duration of the check.
        state: the state of the node for which the result is valid; None if the result was derived from the current
            state.
    """

    outcome: Outcome
    reason: str = ""
    evidence: str = ""
    next_action: str = ""
    found_at: float = 0.0
    seconds: float = 0.0
    state: NodeState | None = None


class StageRecord(msgspec.Struct, frozen=True):
    """The annotation `accelkit.io/stages` of a node: the results of the stages that require work on the node."""

    results: dict[Stage, StageResult]
    version: int = STAGES_VERSION


_record = msgspec.json.Decoder(StageRecord)


def read_record(text: str | None) -> StageRecord | None:
    """Return the record of a node; empty if there is none, and None if it is unreadable or has a different version."""
    if text is None:
        return StageRecord({})
    if len(text) > MAX_STAGES_BYTES:
        return None
    try:
        record = _record.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    return record if record.version == STAGES_VERSION else None


def write_record(record: StageRecord) -> str:
    """Return the value of the annotation. Evidence is truncated so that the value is less than `MAX_STAGES_BYTES`."""
    results = {
        stage: msgspec.structs.replace(
            result,
            evidence=shorten(result.evidence, MAX_EVIDENCE),
            next_action=shorten(result.next_action, MAX_EVIDENCE),
        )
        for stage, result in record.results.items()
    }
    return msgspec.json.encode(msgspec.structs.replace(record, results=results)).decode()


def judge_recorded(result: StageResult, state: NodeState) -> StageResult:
    """Return a recorded result if it is valid for this state of the node; otherwise, return a stale result.

    The evidence of the stale result lists the changes.
    """
    if result.state is None or result.state == state:
        return result
    changed = [
        f"{name} {before or 'unknown'} is {now or 'unknown'} now"
        for name, before, now in (
            ("boot", result.state.boot_id, state.boot_id),
            ("kernel", result.state.kernel, state.kernel),
            ("driver", result.state.drivers, state.drivers),
            ("set of cards", result.state.cards, state.cards),
        )
        if before != now
    ]
    return msgspec.structs.replace(
        result,
        outcome=Outcome.STALE,
        reason="StateChanged",
        evidence=f"{'; '.join(changed)}; the previous outcome was {result.outcome}",
        next_action="Run the check again: ansible-playbook playbooks/verify.yml -i INVENTORY",
    )
