"""Record of check results in a node's annotation `accelkit.io/stages`, which also contains results of other stages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from accelkit.decoding import decode_version
from accelkit.errors import ApiError, ServiceError
from accelkit.kube.client import ApiClient
from accelkit.kube.paths import build_node_path
from accelkit.model.keys import STAGES_ANNOTATION
from accelkit.model.pod import Node
from accelkit.model.stage import (
    MAX_STAGES_BYTES,
    STAGES_VERSION,
    NodeState,
    Outcome,
    Stage,
    StageRecord,
    StageResult,
    read_record,
    write_record,
)

WORK_STAGES: Final[tuple[Stage, ...]] = (Stage.PLUGIN_CHECK, Stage.EXTENDER_CHECK)
_TRIES: Final = 5
# The allowed difference between the clocks of the machines that write and read the record.
_AHEAD_SECONDS: Final = 120.0
# The maximum length of texts that have many bytes per character.
_SHORT_EVIDENCE: Final = 60


@dataclass(frozen=True)
class Recorded:
    """The outcome of writing a node's results.

    Attributes:
        changed: whether an outcome, reason or state changed; changes that affect only texts and times are ignored.
        problem: the reason why the results were not written; empty if the results were written or already recorded.
    """

    changed: bool
    problem: str = ""


def find_valid(
    text: str | None, state: NodeState, *, now: float, max_age_seconds: float
) -> Mapping[Stage, StageResult] | None:
    """Return the recorded results of both checks if the results are valid; None if the checks must run.

    The results are valid if both checks passed for the current state of the node, and if they do not exceed the maximum
    age.
    """
    record = read_record(text)
    found = {stage: record.results[stage] for stage in WORK_STAGES if stage in record.results} if record else {}
    if len(found) != len(WORK_STAGES):
        return None
    valid = all(
        result.outcome is Outcome.PASS
        and result.state == state
        and -_AHEAD_SECONDS <= now - result.found_at <= max_age_seconds
        for result in found.values()
    )
    return found if valid else None


async def record_results(
    api: ApiClient, node: str, results: Mapping[Stage, StageResult], *, max_age_seconds: float
) -> Recorded:
    """Write the results of a node's checks; the results of other stages remain unchanged.

    If only times have changed, the results are written only if the recorded results are too old to be valid.

    Args:
        api: an open client.
        node: the name of the node.
        results: the results of the checks that ran.
        max_age_seconds: the time for which results are valid.

    Raises:
        ApiError: the API server rejected the request or did not respond.
    """
    for left in range(_TRIES - 1, -1, -1):
        try:
            found = msgspec.json.decode(await api.get(build_node_path(node)), type=Node)
        except ApiError as exc:
            if exc.not_found:
                return Recorded(changed=False, problem="the node no longer exists")
            raise
        text = found.find_annotation(STAGES_ANNOTATION)
        try:
            record = _read(text)
        except ServiceError as exc:
            return Recorded(changed=False, problem=str(exc))
        if all(_is_same(record.results.get(stage), result, max_age_seconds) for stage, result in results.items()):
            return Recorded(changed=False)
        changed = any(_is_other(record.results.get(stage), result) for stage, result in results.items())
        metadata = {
            "resourceVersion": found.metadata.resource_version,
            "annotations": {STAGES_ANNOTATION: _encode(StageRecord({**record.results, **results}))},
        }
        try:
            await api.patch(build_node_path(node), {"metadata": metadata})
        except ApiError as exc:
            if not exc.conflict or not left:
                raise
        else:
            return Recorded(changed)
    raise AssertionError("the last attempt returns or raises")


async def erase_record(api: ApiClient, node: str) -> None:
    """Remove the annotation from a node if the node exists.

    Raises:
        ApiError: the API server rejected the request or did not respond.
    """
    try:
        await api.patch(build_node_path(node), {"metadata": {"annotations": {STAGES_ANNOTATION: None}}})
    except ApiError as exc:
        if not exc.not_found:
            raise


def _read(text: str | None) -> StageRecord:
    record = read_record(text)
    if record is not None:
        return record
    try:
        version = decode_version((text or "")[:MAX_STAGES_BYTES])
    except (msgspec.MsgspecError, RecursionError):
        version = 0
    if version > STAGES_VERSION:
        raise ServiceError(
            f"cannot write {STAGES_ANNOTATION} of the node: it has the newer version {version}",
            next_step="use the newer version of the collection",
        )
    # The record is damaged and no version can read it, so it is replaced.
    return StageRecord({})


def _is_same(before: StageResult | None, now: StageResult, max_age_seconds: float) -> bool:
    if before is None or now.found_at - before.found_at > max_age_seconds:
        return False
    return msgspec.structs.replace(before, found_at=0.0, seconds=0.0) == msgspec.structs.replace(
        now, found_at=0.0, seconds=0.0
    )


def _is_other(before: StageResult | None, now: StageResult) -> bool:
    return before is None or (before.outcome, before.reason, before.state) != (now.outcome, now.reason, now.state)


def _encode(record: StageRecord) -> str:
    text = write_record(record)
    if len(text.encode()) <= MAX_STAGES_BYTES:
        return text
    short = {
        stage: msgspec.structs.replace(
            result, evidence=result.evidence[:_SHORT_EVIDENCE], next_action=result.next_action[:_SHORT_EVIDENCE]
        )
        for stage, result in record.results.items()
    }
    return write_record(StageRecord(short))
