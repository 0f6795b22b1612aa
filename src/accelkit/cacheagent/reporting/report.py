"""Content of a node's cache reports: conditions, pods and sizes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from accelkit.cacheagent.planning.desired_caches import DesiredCache, Refusal
from accelkit.cacheagent.planning.observed import MountingPod, OwnNode
from accelkit.cacheagent.planning.plan import AgentPlan
from accelkit.cacheagent.planning.progress import NextStep, Progress, describe_misfit, format_gib
from accelkit.cacheagent.planning.usage import Usage
from accelkit.cacheagent.planning.world import WITHDRAWN, Attempt, World
from accelkit.cacheagent.reporting.effect import MissedFiles, describe_effect, find_differing, has_copy
from accelkit.gkm.conditions import Condition, ConditionType, Reason, is_failure, state
from accelkit.gkm.objects import CacheCounts, CachePod, GpuStatus, NodeCacheStatus, NodeStatus
from accelkit.kernelcache.compatibility.reasons import CompatibilityReason
from accelkit.kernelcache.compatibility.verdicts import CompatibilityVerdict, CompatibilityVerdicts, Fit
from accelkit.kernelcache.formats.recorded import bound_texts, write_texts

_NAMED_PODS: Final = 5


def build_reports(
    world: World, plan: AgentPlan, missed: Mapping[str, Mapping[str, MissedFiles]], *, node_name: str, root: str
) -> dict[str, NodeStatus]:
    """Return the node's reports without timestamps, keyed by namespace. ClusterGKMCaches have an empty namespace.

    Args:
        world: observed values on which the plan is based.
        plan: current plan.
        missed: files that pods created, keyed by cache key and pod UID. Pods without results are omitted.
        node_name: name of the node.
        root: path of the store on the node.
    """
    caches: dict[str, dict[str, dict[str, NodeCacheStatus]]] = defaultdict(dict)
    for key, progress in plan.progress.items():
        usage, own = plan.usage.get(key, Usage()), missed.get(key, {})
        entries = _describe_former(world, progress.desired, usage, own, root)
        if progress.desired.folder:
            entries[progress.desired.digest] = _describe(world, plan, progress, own, root)
        elif progress.desired.digest:
            entries[progress.desired.digest] = _describe_elsewhere(world, progress)
        if entries:
            caches[progress.desired.namespace][progress.desired.name] = entries
    gpus = _group_cards(world.node)
    return {
        namespace: NodeStatus(node_name=node_name, counts=_count(found), gpus=gpus, caches=found)
        for namespace, found in caches.items()
    }


def _describe_former(
    world: World, desired: DesiredCache, usage: Usage, missed: Mapping[str, MissedFiles], root: str
) -> dict[str, NodeCacheStatus]:
    entries = {}
    for folder, pods in usage.pods.items():
        digest = f"sha256:{folder.removeprefix('sha256-')[:64]}"
        # The current digest can have a second folder for a different mount path.
        if digest == desired.digest:
            continue
        text = f"pods that may still use this digest ({len(pods)}): {_name(pods)}"
        stored = world.stored.get(folder)
        entries[digest] = NodeCacheStatus(
            volume_size=stored.size_bytes if stored is not None else 0,
            path=_find_path(root, folder) if stored is not None else "",
            pods=_list_pods(pods, missed),
            conditions=[state(ConditionType.OUTDATED, Reason.OUTDATED, text, holds=True)],
        )
    return entries


def _find_path(root: str, folder: str) -> str:
    return f"{root}/{folder}/cache"


def _describe(
    world: World, plan: AgentPlan, progress: Progress, missed: Mapping[str, MissedFiles], root: str
) -> NodeCacheStatus:
    desired, usage = progress.desired, plan.usage.get(progress.desired.key, Usage())
    current = usage.pods.get(desired.folder, ())
    # A digest has one folder per mount path, and pods with a pinned claim may use any of these folders.
    former = len({pod.uid for folder, pods in usage.pods.items() if folder != desired.folder for pod in pods})
    stored = world.find_stored(desired)
    fit, misfit = _list_numbers(world.node, progress.verdicts)
    recorded = write_texts(stored.labels.variables) if stored is not None else {}
    otherwise = [pod for pod in current if pod.uid in missed and missed[pod.uid].new_folders]
    return NodeCacheStatus(
        compatible_gpus=fit,
        incompatible_gpus=misfit,
        volume_size=stored.size_bytes if stored is not None else 0,
        path=_find_path(root, desired.folder) if stored is not None else "",
        pods=_list_pods(current, missed),
        conditions=[
            _judge_cards(world, progress),
            _describe_extracted(world, plan, progress),
            _describe_ready(world, plan, progress),
            _describe_outdated(former),
            *_describe_changed(world, desired),
            describe_effect(
                [(str(pod), missed[pod.uid]) for pod in current if pod.uid in missed],
                sum(pod.uid not in missed and has_copy(pod, desired) for pod in current),
                find_differing(otherwise, desired, recorded),
            ),
        ],
        # The variables are the same on all nodes, so a report omits them if the status of the cache contains them.
        recorded_environment={} if desired.has_variables else bound_texts(recorded),
    )


def _describe_elsewhere(world: World, progress: Progress) -> NodeCacheStatus:
    """Return the report entry for a cache with a delivery other than `node`."""
    fit, misfit = _list_numbers(world.node, progress.verdicts)
    return NodeCacheStatus(compatible_gpus=fit, incompatible_gpus=misfit, conditions=[_judge_cards(world, progress)])


def _list_numbers(node: OwnNode, verdicts: CompatibilityVerdicts | None) -> tuple[list[int], list[int]]:
    fit: list[int] = []
    misfit: list[int] = []
    for card in verdicts.cards if verdicts is not None else ():
        number = node.number_of(card.id)
        if number is not None and card.verdict is not CompatibilityVerdict.UNKNOWN:
            (fit if card.verdict is CompatibilityVerdict.COMPATIBLE else misfit).append(number)
    return fit, misfit


def _judge_cards(world: World, progress: Progress) -> Condition:
    verdicts, kind = progress.verdicts, ConditionType.COMPATIBLE
    if verdicts is None and progress.attempt is not None:
        return state(kind, progress.attempt.reason, _describe_attempt(world, progress.attempt), holds=None)
    if verdicts is None:
        return state(kind, Reason.PENDING, "the labels of the image have not been read yet", holds=None)
    text = _explain(verdicts) or world.node.problem
    if verdicts.fit is Fit.ALL:
        return state(kind, Reason.COMPATIBLE, "", holds=True)
    if verdicts.fit is Fit.SOME:
        return state(kind, Reason.PARTLY_COMPATIBLE, text, holds=True)
    if verdicts.fit is Fit.NONE:
        return state(kind, describe_misfit(verdicts), text, holds=False)
    codes = [reason.code for reason in _list_reasons(verdicts) if reason.code.leaves_unknown]
    return state(kind, str(codes[0]) if codes else Reason.PENDING, text, holds=None)


def _list_reasons(verdicts: CompatibilityVerdicts) -> list[CompatibilityReason]:
    return [*verdicts.reasons, *(reason for card in verdicts.cards for reason in card.reasons)]


def _explain(verdicts: CompatibilityVerdicts) -> str:
    """Return the reasons why cards cannot load a cache, or why the verdict is unknown. Other reasons are omitted."""
    text = [
        f"{reason.code}: {reason.message}"
        for reason in _list_reasons(verdicts)
        if reason.hard or reason.code.leaves_unknown
    ]
    return "; ".join(dict.fromkeys(text))


def _describe_extracted(world: World, plan: AgentPlan, progress: Progress) -> Condition:
    kind, key = ConditionType.EXTRACTED, progress.desired.key
    stored = world.find_stored(progress.desired)
    linked = world.links.get(progress.desired.link) == progress.desired.folder
    if (
        stored is not None
        and progress.refusal is None
        and (linked or progress.step in {NextStep.SERVE, NextStep.NOTHING})
    ):
        text = f"{stored.files} files, {format_gib(stored.size_bytes)}"
        return state(kind, Reason.EXTRACTED, text, holds=True)
    if progress.refusal is not None:
        return state(kind, progress.refusal.reason, progress.refusal.message, holds=False)
    if progress.step is NextStep.NOTHING:
        undecided = _find_undecided(world, progress)
        return state(kind, undecided.reason, undecided.message, holds=False)
    if (full := plan.no_room.get(key)) is not None:
        return state(kind, full.reason, full.message, holds=False)
    if progress.attempt is not None and key not in world.busy:
        return state(kind, progress.attempt.reason, _describe_attempt(world, progress.attempt), holds=False)
    changed = world.changed.get(progress.desired.folder, "") if stored is None else ""
    text = "the signatures are being verified" if stored is not None else "the files are being fetched"
    return state(kind, Reason.CONTENT_CHANGED if changed else Reason.EXTRACTING, changed or text, holds=False)


def _describe_changed(world: World, desired: DesiredCache) -> list[Condition]:
    changed = world.changed.get(desired.folder)
    return [state(ConditionType.DEGRADED, Reason.CONTENT_CHANGED, changed, holds=True)] if changed is not None else []


def _describe_attempt(world: World, attempt: Attempt) -> str:
    # Omit the remaining time, which would change each report.
    again = ", retry scheduled" if attempt.retry_at > world.now else ""
    return f"{attempt.message} (failure {attempt.failures}{again})"


def _describe_ready(world: World, plan: AgentPlan, progress: Progress) -> Condition:
    kind, key, desired = ConditionType.READY, progress.desired.key, progress.desired
    linked = world.links.get(desired.link)
    late = next((move.late for move in plan.moves if move.key == key and move.late), ())
    if progress.step is NextStep.SERVE and linked == desired.folder:
        text = f"pods that were starting when the digest changed: {', '.join(late)}" if late else ""
        return state(kind, Reason.READY, text, holds=True)
    if progress.refusal is not None:
        kept = "; pods still get the previous digest" if linked not in {None, WITHDRAWN, desired.folder} else ""
        return state(kind, progress.refusal.reason, progress.refusal.message + kept, holds=False)
    if (waits := plan.waiting.get(key)) is not None:
        text = f"pods still get the previous digest, until these pods have started: {', '.join(waits[:_NAMED_PODS])}"
        return state(kind, Reason.PENDING, text, holds=False)
    if linked == desired.folder:
        # Files that pods already use remain available while they cannot be verified again.
        return state(kind, Reason.READY, _explain_unconfirmed(world, progress), holds=True)
    hindrance = _find_hindrance(world, plan, progress)
    return state(kind, hindrance.reason, hindrance.message, holds=False)


def _find_hindrance(world: World, plan: AgentPlan, progress: Progress) -> Refusal:
    """Return the reason why pods cannot use a cache that is not rejected."""
    if progress.step is NextStep.NOTHING:
        return _find_undecided(world, progress)
    extracted = _describe_extracted(world, plan, progress)
    if extracted.status == "True":
        return Refusal(Reason.PENDING, "the link to the files is being moved")
    return Refusal(extracted.reason, extracted.message)


def _explain_unconfirmed(world: World, progress: Progress) -> str:
    """Return the reason why it is unknown whether the files satisfy the current policies."""
    if progress.step is NextStep.NOTHING:
        why = _find_undecided(world, progress).message
    elif progress.attempt is not None:
        why = f"{progress.attempt.reason}: {_describe_attempt(world, progress.attempt)}"
    else:
        why = "the signatures are being verified again"
    return f"the cache was verified earlier; {why}"


def _find_undecided(world: World, progress: Progress) -> Refusal:
    """Return the reason why there is no verdict on the cache yet."""
    undecided = world.image_policies[progress.desired.key].undecided
    return undecided or Refusal(Reason.PENDING, "the controller has no current verdict on the cache")


def _describe_outdated(count: int) -> Condition:
    if not count:
        return state(ConditionType.OUTDATED, Reason.CURRENT, "", holds=False)
    text = f"pods that may use a previous digest: {count}"
    return state(ConditionType.OUTDATED, Reason.OUTDATED, text, holds=True)


def _name(pods: Sequence[MountingPod]) -> str:
    more = f" and {len(pods) - _NAMED_PODS} more" if len(pods) > _NAMED_PODS else ""
    return ", ".join(sorted(map(str, pods))[:_NAMED_PODS]) + more


def _list_pods(pods: Iterable[MountingPod], missed: Mapping[str, MissedFiles]) -> list[CachePod]:
    listed = sorted(pods, key=lambda pod: (pod.namespace, pod.name))
    return [
        CachePod(pod.namespace, pod.name, missed_files=missed[pod.uid].files if pod.uid in missed else None)
        for pod in listed
    ]


def _count(caches: Mapping[str, Mapping[str, NodeCacheStatus]]) -> CacheCounts:
    entries = [entry for by_digest in caches.values() for entry in by_digest.values()]
    current = [entry for entry in entries if any(each.type == ConditionType.READY for each in entry.conditions)]
    former = [entry for entry in entries if entry not in current]
    in_use = any(entry.pods for entry in entries)
    failed = any(
        each.type == ConditionType.READY and is_failure(each) for entry in current for each in entry.conditions
    )
    return CacheCounts(
        node_cnt=1,
        node_in_use_cnt=int(in_use),
        node_not_in_use_cnt=int(not in_use),
        node_error_cnt=int(failed),
        pod_running_cnt=sum(len(entry.pods) for entry in current),
        pod_outdated_cnt=sum(len(entry.pods) for entry in former),
    )


def _group_cards(node: OwnNode) -> list[GpuStatus]:
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for place, card in enumerate(node.cards):
        groups[card.model, node.find_driver(card)].append(place if card.number is None else card.number)
    return [GpuStatus(model, driver, ids) for (model, driver), ids in groups.items()]
