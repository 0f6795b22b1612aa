"""Delivery `namespace`, which creates a claim for each workload namespace and digest. A Job fills the claim."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from accelkit.cachecontroller.cluster_view import (
    CLAIMS,
    JOBS,
    VOLUMES,
    ClaimPod,
    ClusterView,
    ObjectName,
    ObservedObject,
)
from accelkit.cachecontroller.delivery import DeliveryPlan, FillSettings, Watch
from accelkit.cachecontroller.filling.handover import Given, HandOver, list_given, list_users
from accelkit.cachecontroller.filling.objects import (
    CLASSES,
    CONFIG_MAPS,
    DRIVERS,
    EVENTS,
    PODS,
    SNAPSHOT_CLASSES,
    SNAPSHOTS,
    Filled,
    Target,
    Waiting,
    Work,
    read_annotation,
    read_claim_ref,
    read_volume_name,
)
from accelkit.cachecontroller.filling.volume import VolumeFilling
from accelkit.gkm.conditions import Condition, ConditionType, Reason, state
from accelkit.gkm.objects import Cache, PvcStatus
from accelkit.model.keys import CACHE_KEY_ANNOTATION, CACHE_NAMESPACE_ANNOTATION
from accelkit.texts import list_some

_OWNER: Final = "Operator"
# Kinds of objects that fill volumes, in accelkit's own namespace.
_FILLING: Final = (JOBS, CLAIMS, SNAPSHOTS, CONFIG_MAPS)
_REFUSALS: Final = "involvedObject.kind=PersistentVolumeClaim,reason=ProvisioningFailed"


class NamespaceDelivery:
    """Delivery mode that fills volumes in accelkit's namespace and hands them over to a cache's namespaces.

    Args:
        settings: settings of Jobs.
    """

    def __init__(self, settings: FillSettings) -> None:
        self._settings = settings

    @property
    def watches(self) -> tuple[Watch, ...]:
        """Kinds of objects that this mode watches."""
        ours = self._settings.namespace
        return (
            *(Watch(kind, namespace=ours) for kind in (JOBS, PODS, CONFIG_MAPS)),
            Watch(EVENTS, selector="", fields=_REFUSALS, namespace=ours, bookmarks=False),
            Watch(CLASSES, selector=""),
            Watch(DRIVERS, selector=""),
            Watch(SNAPSHOTS, optional=True, namespace=ours),
            Watch(SNAPSHOT_CLASSES, selector="", optional=True),
        )

    def plan(self, cache: Cache, cluster: ClusterView) -> DeliveryPlan:
        """Return the next changes for a verified cache."""
        work = Work()
        given = list_given(cache, cluster)
        states = {}
        for namespace in cache.namespaces:
            if cluster.namespaces.get(namespace) is False:
                states[namespace] = self._prepare(cache, namespace, given, cluster, work)
        for each in given:
            # The cache no longer contains this namespace.
            if each.namespace not in cache.namespaces:
                _collect(each, cluster, work)
        self._collect_filling(cache, cluster, work)
        return work.finish(states)

    def plan_removal(self, cache: Cache, cluster: ClusterView) -> DeliveryPlan:
        """Return the deletions of all objects of a cache. Kubernetes does not delete a claim while a pod uses it."""
        work = Work()
        for each in list_given(cache, cluster):
            _collect(each, cluster, work)
        for name, observed in cluster.list_of_cache(CLAIMS, cache.key):
            if name.namespace != self._settings.namespace and self._is_halfway(name, observed, cluster):
                work.remove(name, observed)
        self._collect_filling(cache, cluster, work)
        return DeliveryPlan(delete=tuple(work.delete))

    def list_users(self, cache: Cache, cluster: ClusterView) -> Mapping[str, list[ClaimPod]]:
        """Return the pods that mount a handed-over volume, keyed by the digest in the volume."""
        found: dict[str, list[ClaimPod]] = {}
        for each in list_given(cache, cluster):
            pods = cluster.list_pods(each.claim.namespace) if each.held is not None else ()
            found.setdefault(each.digest, []).extend(pod for pod in pods if each.claim.name in pod.claims)
        return found

    def owns(self, cache: Cache, name: ObjectName, observed: ObservedObject) -> bool:
        """Return whether this mode created an object for a cache.

        In accelkit's namespace, the annotation is trusted. A claim in another namespace is used only if a volume refers
        to it, which `plan` checks. Therefore, labels and annotations that a tenant copies have no effect.
        """
        if read_annotation(observed, CACHE_KEY_ANNOTATION) != cache.key:
            return False
        if name.namespace == self._settings.namespace and name.kind in _FILLING:
            return True
        return name.kind in {CLAIMS, VOLUMES} and bool(read_annotation(observed, CACHE_NAMESPACE_ANNOTATION))

    def _prepare(
        self, cache: Cache, namespace: str, given: Iterable[Given], cluster: ClusterView, work: Work
    ) -> PvcStatus:
        target = Target(cache, namespace, cache.status.resolved_digest, cache.status.mount_path)
        here = [each for each in given if each.namespace == namespace]
        hand_over = HandOver(target, here, cluster, work)
        current = hand_over.find_given()
        former = [each for each in here if each is not current]
        for each in here:
            hand_over.disown(each)
        if current is not None and current.bound:
            hand_over.follow_pods(current)
            for each in former:
                _collect(each, cluster, work)
            _collect_lost(current, cluster, work, cache.key)
            ready = state(ConditionType.READY, Reason.READY, f"claim {current.claim.name} is filled", holds=True)
            return self._build_status(current, "", ready, former, cluster)
        if current is not None:
            hand_over.hurry(current)
            text = f"claim {current.claim.name} is being bound to its volume"
            return self._build_status(current, "", _wait(Waiting(Reason.PENDING.value, text)), former, cluster)
        answer = VolumeFilling(target, self._settings, cluster, work).fill()
        waiting = hand_over.give(answer) if isinstance(answer, Filled) else answer
        # Pods use the previous volume until the new volume is ready.
        last = next((each for each in former if each.bound and not each.leaving), None)
        return self._build_status(last, waiting.job, _wait(waiting), former, cluster)

    def _build_status(
        self, given: Given | None, job: str, ready: Condition, former: Iterable[Given], cluster: ClusterView
    ) -> PvcStatus:
        pods = [pod for each in former for pod in list_users(each.claim, cluster)]
        text = f"pods with a previous digest: {list_some(pods)}" if pods else "no pod uses a previous digest"
        outdated = state(ConditionType.OUTDATED, Reason.OUTDATED if pods else Reason.CURRENT, text, holds=bool(pods))
        return PvcStatus(
            pv_name=given.volume.name if given is not None else "",
            pvc_name=given.claim.name if given is not None else "",
            job_name=job,
            pvc_owner=_OWNER,
            conditions=[ready, outdated],
        )

    def _collect_filling(self, cache: Cache, cluster: ClusterView, work: Work) -> None:
        """Delete the objects that were used to fill volumes and are no longer needed."""
        for kind in _FILLING:
            for name, observed in cluster.list_of_cache(kind, cache.key):
                if name.namespace == self._settings.namespace and name not in work.keep and _fills(observed):
                    work.remove(name, observed)

    def _is_halfway(self, name: ObjectName, observed: ObservedObject, cluster: ClusterView) -> bool:
        """Return whether the volume of a created claim has not been handed over yet or no longer exists."""
        if read_annotation(observed, CACHE_NAMESPACE_ANNOTATION) != name.namespace:
            return False
        volume = cluster.find(ObjectName(VOLUMES, read_volume_name(observed)))
        if volume is None:
            return observed.status.get("phase") == "Lost"
        ours = read_annotation(volume, CACHE_KEY_ANNOTATION) == read_annotation(observed, CACHE_KEY_ANNOTATION)
        return ours and read_claim_ref(volume).get("namespace") == self._settings.namespace


def _wait(waiting: Waiting) -> Condition:
    return Condition(ConditionType.READY.value, "False", waiting.reason, waiting.message[:1024])


def _fills(observed: ObservedObject) -> bool:
    return bool(read_annotation(observed, CACHE_NAMESPACE_ANNOTATION))


def _collect(given: Given, cluster: ClusterView, work: Work) -> None:
    if given.held is not None and not list_users(given.claim, cluster):
        work.remove(given.claim, given.held)


def _collect_lost(current: Given, cluster: ClusterView, work: Work, key: str) -> None:
    """Delete the claims that have lost their volume to another claim, because Kubernetes cannot bind them again."""
    for name, observed in cluster.list_of_cache(CLAIMS, key):
        moved = read_volume_name(observed) == current.volume.name and name != current.claim
        if name.namespace == current.namespace and moved and observed.status.get("phase") == "Lost":
            work.remove(name, observed)
