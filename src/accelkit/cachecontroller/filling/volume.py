"""Process that fills one volume in accelkit's namespace, for one digest and one workload namespace."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from accelkit.cachecontroller.cluster_view import CLAIMS, VOLUMES, ClusterView, ObjectName, ObservedObject
from accelkit.cachecontroller.delivery import FillSettings, Patch
from accelkit.cachecontroller.filling.manifests import (
    list_copies,
    measure_claim,
    place_pod,
    write_claim,
    write_job,
    write_settings,
    write_size,
)
from accelkit.cachecontroller.filling.namespace_limits import find_wait_for_job
from accelkit.cachecontroller.filling.objects import (
    CONFIG_MAPS,
    SNAPSHOTS,
    Filled,
    Refused,
    Target,
    Waiting,
    Work,
    find_volume_name,
    job_name,
    read_annotation,
    read_volume_name,
    waiting_for,
)
from accelkit.cachecontroller.filling.progress import Attempt, JobState, find_attempt
from accelkit.cachecontroller.filling.routes import Copy, Route, Storage, find_refusal, find_storage, list_routes
from accelkit.errors import CacheError, QuantityError
from accelkit.gkm.conditions import Reason
from accelkit.model.keys import CACHE_REFUSED_ANNOTATION

# Interval between passes while a Job waits for the Jobs of other caches, because no event for this cache reports that
# those Jobs have finished.
_TURN_SECONDS: Final = 10.0


class VolumeFilling:
    """A single pass over the objects that are used to fill a volume.

    Args:
        target: target that specifies the content and namespace of the volume.
        settings: settings of the controller.
        cluster: current state.
        work: collector for the changes.
    """

    def __init__(self, target: Target, settings: FillSettings, cluster: ClusterView, work: Work) -> None:
        self._target = target
        self._settings = settings
        self._cluster = cluster
        self._work = work

    def fill(self) -> Filled | Waiting:
        """Return the filled volume, or the reason why it is not filled yet."""
        spec = self._target.cache.spec
        try:
            place_pod(spec.pod_template)
        except CacheError as exc:
            return waiting_for(Reason.INVALID_SPEC, str(exc))
        storage = find_storage(spec.storage_class_name, self._cluster)
        if storage is None:
            # No event for this cache reports the creation of a StorageClass.
            self._work.wakes.append(60.0)
            missing = f"StorageClass {spec.storage_class_name}" if spec.storage_class_name else "default StorageClass"
            return waiting_for(Reason.INVALID_SPEC, f"{missing} does not exist")
        try:
            size_bytes = measure_claim(spec, self._target.cache.status.cache_bytes)
        except QuantityError as exc:
            return waiting_for(Reason.INVALID_SPEC, str(exc))
        refused: list[str] = []
        for route in list_routes(spec.access_modes, storage):
            answer = self._follow(route, storage, size_bytes)
            if not isinstance(answer, Refused):
                return answer
            refused.append(f"{route.name} ({', '.join(route.claim)}): {answer.message}")
        text = "; ".join(refused)
        message = (
            f"StorageClass {storage.name} provides no volume with {', '.join(spec.access_modes) or 'its mode'}: {text}"
        )
        return waiting_for(Reason.ACCESS_MODE_UNSUPPORTED, message)

    def _follow(self, route: Route, storage: Storage, size_bytes: int) -> Filled | Waiting | Refused:
        facts = (storage.name, *route.claim, str(size_bytes))
        name = self._name(route.step, *facts)
        write = partial(write_claim, storage_class=storage.name, modes=route.claim, size=write_size(size_bytes))
        claim = self._claim(name, write)
        if not isinstance(claim, ObservedObject):
            return claim
        self._mark_volume(claim, route.write)
        if isinstance(text := self._judge_claim(name, claim), Refused):
            return text
        attempt = self._run(route.step, facts, name, text, check=False)
        if isinstance(attempt, Waiting):
            return attempt
        if route.copy is Copy.NONE:
            return self._finish(claim, route, attempt)
        return self._copy(route, storage, size_bytes, name)

    def _copy(self, route: Route, storage: Storage, size_bytes: int, filled: ObjectName) -> Filled | Waiting | Refused:
        facts = (storage.name, *route.give, str(size_bytes))
        source = {"kind": CLAIMS.kind, "name": filled.name}
        if route.copy is Copy.SNAPSHOT:
            snapshot = self._snapshot(storage, filled)
            if not isinstance(snapshot, str):
                return snapshot
            source = {"apiGroup": "snapshot.storage.k8s.io", "kind": SNAPSHOTS.kind, "name": snapshot}
        step = f"{route.name}-copy"
        name = self._name(step, *facts)
        size = write_size(size_bytes)
        write = partial(write_claim, storage_class=storage.name, modes=route.give, size=size, source=source)
        claim = self._claim(name, write)
        if not isinstance(claim, ObservedObject):
            return claim
        self._mark_volume(claim, route.give)
        if isinstance(text := self._judge_claim(name, claim), Refused):
            return text
        # Verify the copy before its handover, because some drivers create an empty volume instead of a copy.
        attempt = self._run(f"{route.name}-check", facts, name, text, check=True)
        return attempt if isinstance(attempt, Waiting) else self._finish(claim, route, attempt)

    def _claim(self, name: ObjectName, write: Callable[[dict[str, Any]], dict[str, Any]]) -> ObservedObject | Waiting:
        self._work.keep.add(name)
        if (claim := self._cluster.find(name)) is not None:
            return claim
        if (refusal := self._work.read_refusal(name, self._cluster)) is not None:
            return Waiting(refusal.reason, f"cannot create claim {name.name}: {refusal.message}")
        self._work.create.append((name, write(self._target.mark(name.name, name.namespace))))
        return waiting_for(Reason.PENDING, f"claim {name.name} is being created")

    def _judge_claim(self, name: ObjectName, claim: ObservedObject) -> str | Refused:
        """Return the provisioner's error if a claim does not have a volume.

        A missing volume alone is not an error, because many claims wait for their first pod.
        """
        if read_volume_name(claim):
            return ""
        message, final = find_refusal(name, claim, self._cluster)
        if not final:
            return message
        if not read_annotation(claim, CACHE_REFUSED_ANNOTATION):
            body = {"metadata": {"annotations": {CACHE_REFUSED_ANNOTATION: message}}}
            self._work.patch.append(Patch(name, body, claim.metadata.uid))
        return Refused(message)

    def _mark_volume(self, claim: ObservedObject, modes: tuple[str, ...]) -> None:
        """Set the access modes of a claim's volume, and the labels that make the watch report the volume."""
        if not read_volume_name(claim):
            return
        name = find_volume_name(claim)
        volume = self._cluster.find(name)
        body: dict[str, object] = {}
        if volume is None or read_annotation(volume, next(iter(self._target.annotations))) != self._target.cache.key:
            marked = self._target.mark(name.name)
            body["metadata"] = {"labels": marked["labels"], "annotations": marked["annotations"]}
        # Attachers reject a volume with both modes, even if the driver supports both modes.
        if volume is not None and "csi" in volume.spec and volume.spec.get("accessModes") != list(modes):
            body["spec"] = {"accessModes": list(modes)}
        if body:
            self._work.patch.append(Patch(name, body, volume.metadata.uid if volume is not None else ""))

    def _run(
        self, step: str, facts: tuple[str, ...], claim: ObjectName, text: str, *, check: bool
    ) -> Attempt | Waiting:
        """Return the completed attempt, or the reason why the Job is not complete."""
        base = self._target.name(step, *facts)
        attempt = find_attempt(self._settings.namespace, base, self._target.cache.key, self._cluster)
        if attempt is None:
            return self._start(base, 1, claim, check=check)
        self._work.keep |= {attempt.name, _name_settings(attempt.name)}
        if attempt.state is JobState.DONE:
            return attempt
        if attempt.state is JobState.FAILED:
            if self._cluster.now >= attempt.again_at:
                self._start(base, attempt.number + 1, claim, check=check)
            self._work.wakes.append(max(1.0, attempt.again_at - self._cluster.now))
            message = f"attempt {attempt.number} failed: {attempt.message}"
            return waiting_for(Reason.FILL_FAILED, message, job=attempt.name.name)
        # The API server may have accepted the Job but not the ConfigMap.
        if (waiting := self._share(_name_settings(attempt.name))) is not None:
            return waiting
        if not check:
            copies = list_copies(self._target, self._settings, attempt.name, attempt.uid)
            if (refusal := self._work.copy_secrets(copies, self._cluster)) is not None:
                return Waiting(refusal.reason, refusal.message, job=attempt.name.name)
        message = text or attempt.message or f"Job {attempt.name.name} fills {claim.name}"
        return waiting_for(Reason.EXTRACTING, message, job=attempt.name.name)

    def _start(self, base: str, number: int, claim: ObjectName, *, check: bool) -> Waiting:
        if wait := find_wait_for_job(self._target, self._settings.namespace, self._cluster):
            self._work.wakes.append(_TURN_SECONDS)
            return waiting_for(Reason.PENDING, wait)
        name = job_name(self._settings.namespace, f"{base}-{number}")
        # Each attempt has a separate ConfigMap, because the policies may have changed.
        shared = _name_settings(name)
        self._work.keep |= {name, shared}
        if (refusal := self._work.read_refusal(name, self._cluster)) is not None:
            return Waiting(refusal.reason, f"cannot create Job {name.name}: {refusal.message}")
        if (waiting := self._share(shared)) is not None:
            return waiting
        job = write_job(
            self._target,
            self._settings,
            name=name.name,
            claim=claim.name,
            shared=shared.name,
            attempt=number,
            check=check,
        )
        self._work.create.append((name, job))
        return waiting_for(Reason.EXTRACTING, f"Job {name.name} is being created", job=name.name)

    def _share(self, shared: ObjectName) -> Waiting | None:
        """Create the ConfigMap of a Job if it is missing; return the reason if it cannot be created."""
        if self._cluster.find(shared) is not None:
            return None
        if (refusal := self._work.read_refusal(shared, self._cluster)) is not None:
            return Waiting(refusal.reason, f"cannot create ConfigMap {shared.name}: {refusal.message}")
        written = write_settings(self._target, shared.name, self._settings, self._cluster.policies)
        self._work.create.append((shared, written))
        return None

    def _snapshot(self, storage: Storage, filled: ObjectName) -> str | Waiting | Refused:
        name = ObjectName(SNAPSHOTS, self._target.name("snapshot", storage.name, filled.name), filled.namespace)
        self._work.keep.add(name)
        snapshot = self._cluster.find(name)
        if snapshot is None:
            if (refusal := self._work.read_refusal(name, self._cluster)) is not None:
                return Waiting(refusal.reason, f"cannot create snapshot {name.name}: {refusal.message}")
            spec = {
                "volumeSnapshotClassName": storage.snapshot_class,
                "source": {"persistentVolumeClaimName": filled.name},
            }
            body = {
                "apiVersion": SNAPSHOTS.api_version,
                "kind": SNAPSHOTS.kind,
                "metadata": self._target.mark(name.name, name.namespace),
                "spec": spec,
            }
            self._work.create.append((name, body))
            return waiting_for(Reason.PENDING, f"snapshot {name.name} is being created")
        if snapshot.status.get("readyToUse") is True:
            return name.name
        error = snapshot.status.get("error")
        if isinstance(error, dict) and error.get("message"):
            return Refused(str(error["message"]))
        return waiting_for(Reason.PENDING, f"snapshot {name.name} is not ready yet")

    def _finish(self, claim: ObservedObject, route: Route, attempt: Attempt) -> Filled | Waiting:
        name = find_volume_name(claim)
        volume = self._cluster.find(ObjectName(VOLUMES, name.name))
        if volume is None:
            return waiting_for(
                Reason.PENDING, f"the watch has not reported volume {name.name} yet", job=attempt.name.name
            )
        return Filled(name, volume, route.give, attempt.name.name)

    def _name(self, step: str, *facts: str) -> ObjectName:
        return ObjectName(CLAIMS, self._target.name(step, *facts), self._settings.namespace)


def _name_settings(job: ObjectName) -> ObjectName:
    """Return the object name of a Job's ConfigMap."""
    return ObjectName(CONFIG_MAPS, job.name, job.namespace)
