"""What a node's reports say of its caches: conditions with reasons, pods, sizes; no I/O."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from accelkit.cacheagent.planning.desired_caches import DesiredCache, Refusal
from accelkit.cacheagent.planning.observed import MountingPod, OwnNode
from accelkit.cacheagent.planning.plan import Plan
from accelkit.cacheagent.planning.progress import Progress, Step, describe_misfit, format_gib
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
    world: World, plan: Plan, missed: Mapping[str, Mapping[str, MissedFiles]], *, node_name: str, root: str
) -> dict[str, NodeStatus]:
    """Return the status of the node's reports by namespace, empty for that of the ClusterGKMCaches; without times.

    Args:
        world: as the plan was made from it.
        plan: what is being done.
        missed: what pods had to make themselves, by the key of the cache and the pod's UID; without those of whom
            nobody knows.
        node_name: of the node.
        root: the store, as a path on the node.
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
        # For another mount path it is the same digest.
        if digest == desired.digest:
            continue
        told = f"{len(pods)} pods of the node may use this digest still: {_name(pods)}"
        stored = world.stored.get(folder)
        entries[digest] = NodeCacheStatus(
            volume_size=stored.size_bytes if stored is not None else 0,
            path=_find_path(root, folder) if stored is not None else "",
            pods=_list_pods(pods, missed),
            conditions=[state(ConditionType.OUTDATED, Reason.OUTDATED, told, holds=True)],
        )
    return entries


def _find_path(root: str, folder: str) -> str:
    return f"{root}/{folder}/cache"


def _describe(
    world: World, plan: Plan, progress: Progress, missed: Mapping[str, MissedFiles], root: str
) -> NodeCacheStatus:
    desired, usage = progress.desired, plan.usage.get(progress.desired.key, Usage())
    current = usage.pods.get(desired.folder, ())
    # A digest has a folder for each mount path, and a pod with the claim of a digest may have any of them.
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
            _tell_extracted(world, plan, progress),
            _tell_ready(world, plan, progress),
            _tell_outdated(former),
            *_tell_changed(world, desired),
            describe_effect(
                [(str(pod), missed[pod.uid]) for pod in current if pod.uid in missed],
                sum(pod.uid not in missed and has_copy(pod, desired) for pod in current),
                find_differing(otherwise, desired, recorded),
            ),
        ],
        # Every node has the same to tell, so nobody repeats what the status has.
        recorded_environment={} if desired.knows_variables else bound_texts(recorded),
    )


def _describe_elsewhere(world: World, progress: Progress) -> NodeCacheStatus:
    """Return what is said of a cache whose files come to pods otherwise."""
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
        return state(kind, progress.attempt.reason, _tell_attempt(world, progress.attempt), holds=None)
    if verdicts is None:
        return state(kind, Reason.PENDING, "its labels have not been read", holds=None)
    told = _explain(verdicts) or world.node.problem
    if verdicts.fit is Fit.ALL:
        return state(kind, Reason.COMPATIBLE, "", holds=True)
    if verdicts.fit is Fit.SOME:
        return state(kind, Reason.PARTLY_COMPATIBLE, told, holds=True)
    if verdicts.fit is Fit.NONE:
        return state(kind, describe_misfit(verdicts), told, holds=False)
    codes = [reason.code for reason in _list_reasons(verdicts) if reason.code.leaves_unknown]
    return state(kind, str(codes[0]) if codes else Reason.PENDING, told, holds=None)


def _list_reasons(verdicts: CompatibilityVerdicts) -> list[CompatibilityReason]:
    return [*verdicts.reasons, *(reason for card in verdicts.cards for reason in card.reasons)]


def _explain(verdicts: CompatibilityVerdicts) -> str:
    """Return why cards cannot load it, or why nobody knows; not why kernels may not be found."""
    told = [
        f"{reason.code}: {reason.message}"
        for reason in _list_reasons(verdicts)
        if reason.hard or reason.code.leaves_unknown
    ]
    return "; ".join(dict.fromkeys(told))


def _tell_extracted(world: World, plan: Plan, progress: Progress) -> Condition:
    kind, key = ConditionType.EXTRACTED, progress.desired.key
    stored = world.find_stored(progress.desired)
    handed_out = world.links.get(progress.desired.link) == progress.desired.folder
    if stored is not None and progress.refusal is None and (handed_out or progress.step in {Step.SERVE, Step.NOTHING}):
        told = f"{stored.files} files, {format_gib(stored.size_bytes)}"
        return state(kind, Reason.EXTRACTED, told, holds=True)
    if progress.refusal is not None:
        return state(kind, progress.refusal.reason, progress.refusal.message, holds=False)
    if progress.step is Step.NOTHING:
        undecided = _find_undecided(world, progress)
        return state(kind, undecided.reason, undecided.message, holds=False)
    if (full := plan.no_room.get(key)) is not None:
        return state(kind, full.reason, full.message, holds=False)
    if progress.attempt is not None and key not in world.busy:
        return state(kind, progress.attempt.reason, _tell_attempt(world, progress.attempt), holds=False)
    changed = world.changed.get(progress.desired.folder, "") if stored is None else ""
    told = "its signatures are verified by the present policies" if stored is not None else "its files are fetched"
    return state(kind, Reason.CONTENT_CHANGED if changed else Reason.EXTRACTING, changed or told, holds=False)


def _tell_changed(world: World, desired: DesiredCache) -> list[Condition]:
    changed = world.changed.get(desired.folder)
    return [state(ConditionType.DEGRADED, Reason.CONTENT_CHANGED, changed, holds=True)] if changed is not None else []


def _tell_attempt(world: World, attempt: Attempt) -> str:
    # Without the seconds that are left, since each report would say another number.
    again = "; it is tried again" if attempt.retry_at > world.now else ""
    return f"{attempt.message} (failure {attempt.failures}{again})"


def _tell_ready(world: World, plan: Plan, progress: Progress) -> Condition:
    kind, key, desired = ConditionType.READY, progress.desired.key, progress.desired
    linked = world.links.get(desired.link)
    late = next((move.late for move in plan.moves if move.key == key and move.late), ())
    if progress.step is Step.SERVE and linked == desired.folder:
        told = f"it was moved here while these were starting: {', '.join(late)}" if late else ""
        return state(kind, Reason.READY, told, holds=True)
    if progress.refusal is not None:
        kept = "; pods get the former digest" if linked not in {None, WITHDRAWN, desired.folder} else ""
        return state(kind, progress.refusal.reason, progress.refusal.message + kept, holds=False)
    if (waits := plan.waiting.get(key)) is not None:
        told = f"pods get the former digest until these have started: {', '.join(waits[:_NAMED_PODS])}"
        return state(kind, Reason.PENDING, told, holds=False)
    if linked == desired.folder:
        # What was handed out stays so while nobody can judge it anew.
        return state(kind, Reason.READY, _tell_standing(world, progress), holds=True)
    hindrance = _find_hindrance(world, plan, progress)
    return state(kind, hindrance.reason, hindrance.message, holds=False)


def _find_hindrance(world: World, plan: Plan, progress: Progress) -> Refusal:
    """Return why pods do not get what nobody refuses."""
    if progress.step is Step.NOTHING:
        return _find_undecided(world, progress)
    extracted = _tell_extracted(world, plan, progress)
    if extracted.status == "True":
        return Refusal(Reason.PENDING, "its link is being moved")
    return Refusal(extracted.reason, extracted.message)


def _tell_standing(world: World, progress: Progress) -> str:
    """Return why what pods get is not known to satisfy the present policies now."""
    if progress.step is Step.NOTHING:
        why = _find_undecided(world, progress).message
    elif progress.attempt is not None:
        why = f"{progress.attempt.reason}: {_tell_attempt(world, progress.attempt)}"
    else:
        why = "it is being judged again"
    return f"it was verified before; {why}"


def _find_undecided(world: World, progress: Progress) -> Refusal:
    """Return for whom it is waited."""
    undecided = world.image_policies[progress.desired.key].undecided
    return undecided or Refusal(Reason.PENDING, "the controller has no verdict on it now")


def _tell_outdated(count: int) -> Condition:
    if not count:
        return state(ConditionType.OUTDATED, Reason.CURRENT, "", holds=False)
    told = f"{count} pods of the node may use a former digest"
    return state(ConditionType.OUTDATED, Reason.OUTDATED, told, holds=True)


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
