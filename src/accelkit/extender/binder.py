"""The bind verb, which reserves cards, and then annotates and binds the pod in one write to the API server.

The API server merges a Binding's annotations into the pod in the transaction that sets nodeName. It rejects a second
Binding and a wrong UID with Conflict. Therefore, a pod is never bound without its assignment. If the response is lost,
the reservation remains until a GET by UID returns the outcome.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import re
import time
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec

from accelkit.errors import ApiError, BindingError, NotLeadingError, NotReadyError, PodGoneError
from accelkit.extender.binding_outcomes import BindingOutcomes
from accelkit.extender.bindings import build_annotations, read_pod, write_binding
from accelkit.extender.pod_watch import log_release
from accelkit.extender.readiness import Readiness
from accelkit.extender.wire import BindingArgs
from accelkit.kube.client import ApiClient
from accelkit.ledger.claims import reserve
from accelkit.ledger.feed import LedgerFeed, Pending
from accelkit.ledger.holding import ShareStage
from accelkit.ledger.ledger import Ledger
from accelkit.logs import Facts, RepeatLog
from accelkit.model.assignment import Assignment
from accelkit.model.object_meta import is_older
from accelkit.model.pod import Pod, PodRef
from accelkit.model.request import PodRequest
from accelkit.placement.misfit import MisfitError, MisfitReason
from accelkit.placement.policies import AnyPolicy

log = logging.getLogger(__name__)

# Time limit for a Binding and for reading its outcome; the client's timeout applies to each request.
_FINISH_SECONDS = 20.0
# Maximum number of attempts to send a Binding; it is sent again only if the pod has changed.
_TRIES = 3
# Maximum length of an error text in the log.
_MAX_ERROR = 500

# Names are inserted into API server paths, so other characters could change the path.
_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")


class Binder:
    """Component that binds pods to nodes.

    Args:
        api: an open client.
        ledger: the ledger that reserves shares.
        feed: the feed that contains the waiting pods, and that also applies the pods that the binder reads.
        policy: the policy that ranks cards if the pod does not name one.
        opens_at: the time until which binds wait, on the clock of `time.monotonic`.
        readiness: the conditions for sending a Binding.
        admit: a function that waits until the bind of a pod with a card request may continue; None to bind immediately.
        on_released: a function that is called synchronously with the UID of each pod whose reservation is released.

    Attributes:
        outcomes: the Bindings whose response was lost.
    """

    def __init__(
        self,
        api: ApiClient,
        ledger: Ledger,
        feed: LedgerFeed,
        policy: AnyPolicy,
        *,
        opens_at: float = -math.inf,
        container_limits: bool = False,
        readiness: Readiness,
        admit: Callable[[PodRef, str], Awaitable[None]] | None = None,
        on_released: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._on_released = on_released
        self._readiness = readiness
        self._admit = admit
        self._opens_at = opens_at
        # Set when `_opens_at` changes.
        self._time_changed = asyncio.Event()
        # Whether reservations from an earlier term may exist, while another replica was the leader.
        self._has_outdated = False
        self._container_limits = container_limits
        self._api = api
        self._ledger, self._feed = ledger, feed
        self._policy = policy
        self._in_progress: dict[str, tuple[str, asyncio.Task[None]]] = {}
        self.outcomes = BindingOutcomes(api, ledger, feed, is_under_way=self.is_under_way, release=self._release)
        self._repeats = RepeatLog(log)
        self._finished = False

    async def bind(self, args: BindingArgs) -> None:
        """Bind a pod to a node.

        A repeated call for the same pod and node waits for the first call and returns the same result.

        Raises:
            BindingError: the pod cannot be bound to the node.
            NotReadyError: no Binding may be sent now.
            NotLeadingError: another replica is the leader.
            ApiError: the API server rejected the Binding or did not respond.
        """
        for name, value in msgspec.structs.asdict(args).items():
            if not value:
                raise BindingError(f"{name} is missing")
            if name != "PodUID" and not _NAME.fullmatch(value):
                raise BindingError(f"{name} {value[:100]!r} is not a valid name for a Kubernetes object")
        node, task = self._in_progress.get(args.PodUID, (args.Node, None))
        if task is None:
            if self._finished:
                raise NotReadyError("the extender is shutting down")
            task = asyncio.create_task(self._bind(args))
            self._in_progress[args.PodUID] = (args.Node, task)
            task.add_done_callback(partial(self._end_bind, args, time.monotonic()))
        elif node != args.Node:
            raise BindingError(f"pod {args.PodNamespace}/{args.PodName} is already being bound to node {node}")
        # A client that disconnects must not cancel a Binding while other clients wait for its result.
        await asyncio.shield(task)

    def open(self) -> None:
        """Allow binds, because no Binding from an earlier term or another leader can take effect anymore."""
        self._set_opening(-math.inf)
        self._release_outdated()

    def begin_term(self, opens_at: float) -> None:
        """Suspend binds until `open` is called, or until the given time on the clock of `time.monotonic`.

        Then, the reservations from earlier terms are released, because another leader may have assigned their cards.
        """
        self._has_outdated = True
        self._set_opening(opens_at)

    @property
    def unsettled(self) -> bool:
        """Whether a Binding is in progress, or its outcome is unknown."""
        return bool(self._in_progress or self.outcomes)

    def try_open(self) -> bool:
        """Return whether binds may start. If they may, the reservations from earlier terms have been released."""
        if time.monotonic() < self._opens_at:
            return False
        self._release_outdated()
        return True

    def is_under_way(self, uid: str) -> bool:
        """Return whether a pod is being bound."""
        return uid in self._in_progress

    def is_unsettled(self, uid: str) -> bool:
        """Return whether the outcome of a pod's Binding is unknown."""
        return uid in self.outcomes

    async def finish(self) -> None:
        """Reject new binds, and wait for binds in progress, even if their clients have disconnected."""
        self._finished = True
        if tasks := [task for _, task in self._in_progress.values()]:
            await asyncio.wait(tasks, timeout=_FINISH_SECONDS)

    def _end_bind(self, args: BindingArgs, started: float, task: asyncio.Task[None]) -> None:
        self._in_progress.pop(args.PodUID, None)
        # Retrieve the exception, because all clients may have disconnected.
        failure = "the extender stopped" if task.cancelled() else task.exception()
        pod, values = f"{args.PodNamespace}/{args.PodName}", {"uid": args.PodUID, "node": args.Node}
        if failure is not None:
            error = str(failure)[:_MAX_ERROR]
            self._repeats.info(
                (args.PodUID, args.Node, error), lambda: Facts("not bound", pod=pod, **values, error=error)
            )
        elif log.isEnabledFor(logging.INFO):
            held, seconds = self._ledger.describe_holding(args.PodUID), time.monotonic() - started
            log.info(Facts("bound", pod=pod, **values, **held, seconds=seconds))

    def _set_opening(self, at: float) -> None:
        self._opens_at = at
        self._time_changed.set()
        self._time_changed = asyncio.Event()

    def _release_outdated(self) -> None:
        """Release the reservations from earlier terms, if this has not been done in this term."""
        if not self._has_outdated:
            return
        holdings = [held for entry in self._ledger.list_nodes() for held in entry.holdings.values()]
        outdated = [held for held in holdings if held.stage is ShareStage.RESERVED]
        for held in outdated:
            log_release(held)
            self.outcomes.discard(held.pod.uid)
            self._ledger.release(held.pod.uid)
        self._has_outdated = False
        for held in outdated:
            self._on_released(held.pod.uid)

    async def _bind(self, args: BindingArgs) -> None:
        await self._wait_until_open()
        ref = PodRef(args.PodNamespace, args.PodName, args.PodUID)
        pending = self._feed.pending.get(ref.uid)
        if pending is None:
            pod = await read_pod(self._api, ref)
            if pod.spec.node_name:
                self._take_bound(ref, pod, args.Node)
                return
            pending = self._feed.read_pending(pod)
        annotations, version, reserved = dict[str, str](), "", None
        if pending is not None:
            if pending.refusal is not None:
                raise BindingError(str(pending.refusal))
            if pending.request is not None:
                if self._admit is not None:
                    await self._admit(ref, args.Node)
                reserved = await self._reserve(pending, args.Node, pending.request)
                annotations, version = self._build_annotations(pending, args.Node, reserved), pending.version
        await self._write(ref, args.Node, annotations, version, reserved)

    async def _wait_until_open(self) -> None:
        while not self.try_open():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._opens_at - time.monotonic()):
                    await self._time_changed.wait()

    async def _reserve(self, pending: Pending, node: str, request: PodRequest) -> Assignment:
        ref = pending.pod.ref
        try:
            try:
                return reserve(self._ledger, ref, node, request, self._policy, labels=pending.pod.labels)
            except MisfitError as exc:
                held = self._ledger.find_holding(ref.uid)
                if exc.misfit.reason is not MisfitReason.HELD_ELSEWHERE or held is None:
                    raise
                await self.outcomes.read_outcome(held, binding=True)
                return reserve(self._ledger, ref, node, request, self._policy, labels=pending.pod.labels)
        except MisfitError as exc:
            raise BindingError(pending.pod.dialect.format_misfit(exc.misfit)) from exc

    def _build_annotations(self, pending: Pending, node: str, reserved: Assignment) -> dict[str, str]:
        try:
            entry = self._ledger.find_node(node)
            return build_annotations(pending.pod, entry, reserved, limits=self._container_limits)
        except Exception:
            # No Binding was sent, for example because the code of a plug-in failed.
            if self._is_own_reservation(pending.pod.ref):
                self._release(pending.pod.ref)
            raise

    async def _write(
        self, ref: PodRef, node: str, annotations: dict[str, str], version: str, reserved: Assignment | None
    ) -> None:
        """Send the Binding of a pod with this resource version, or with a newer version that has been read.

        The version was read while this replica was the leader. If the next leader writes to the pod before the Binding
        arrives, the Binding fails.

        Args:
            ref: the pod.
            node: the node of the Binding.
            annotations: the annotations to set on the pod.
            version: the resource version of the pod.
            reserved: the reserved cards; None if the pod does not request cards.

        Raises:
            BindingError: the pod is not bound to the node, or the outcome is unknown.
            NotReadyError: no Binding may be sent now.
            NotLeadingError: another replica is the leader.
        """
        for left in reversed(range(_TRIES)):
            if (known := self._feed.pending.get(ref.uid)) is not None and is_older(version, known.version):
                version = known.version
            self._check_sending(ref, node, reserved)
            try:
                await write_binding(self._api, ref, node, annotations, version=version)
            except ApiError as exc:
                version = await self._after_failure(ref, node, exc, version if left else "")
                if not version:
                    return
            else:
                self._ledger.accept(ref.uid)
                return

    def _check_sending(self, ref: PodRef, node: str, reserved: Assignment | None) -> None:
        """Check that the Binding of a pod may be sent now. If this replica may not send it, release the reservation.

        Raises:
            BindingError: the reservation was released, because another replica was the leader in the meantime.
            NotReadyError: no Binding may be sent now.
            NotLeadingError: another replica is the leader.
        """
        try:
            self._readiness.check_binding()
            self._check_opened()
        except (NotLeadingError, NotReadyError):
            if self._is_own_reservation(ref):
                self._release(ref)
            raise
        if reserved is not None:
            held = self._ledger.find_holding(ref.uid)
            if held is None or held.assignment != reserved:
                raise BindingError(f"cannot bind pod {ref} to node {node}: its cards are no longer reserved")

    def _check_opened(self) -> None:
        if not self.try_open():
            raise NotReadyError("Bindings from the previous leader may still take effect")

    async def _after_failure(self, ref: PodRef, node: str, failure: ApiError, version: str) -> str:
        """Read the outcome of a failed Binding; return an empty string if the pod is bound to the node.

        If the Binding failed because the pod has changed, return the current version of the pod for the next attempt.

        Args:
            ref: the pod.
            node: the node of the Binding.
            failure: the error of the Binding.
            version: the resource version that the Binding contained; empty if the Binding must not be sent again.

        Raises:
            BindingError: the pod is not bound to the node, or the outcome is unknown.
        """
        sentence = f"cannot bind pod {ref} to node {node}: {failure}"
        held, own = self._ledger.find_holding(ref.uid), self._is_own_reservation(ref)
        if failure.unanswered:
            log.warning("response to Binding lost pod=%s node=%s error=%s", ref, node, failure)
        elif not (failure.conflict or failure.not_found):
            if own:
                self._release(ref)
            raise BindingError(sentence) from failure
        if held is not None:
            # Measure the time from the last Binding, because each Binding may still take effect.
            self.outcomes.note_sent(ref.uid)
        try:
            pod = await read_pod(self._api, ref)
        except ApiError:
            # Keep the reservation; the background task of `outcomes` reads the pod again.
            raise BindingError(sentence) from failure
        except PodGoneError:
            self._release(ref)
            raise
        if pod.spec.node_name:
            self._take_bound(ref, pod, node)
            return ""
        again = bool(version) and failure.conflict and pod.metadata.resource_version != version
        if own and not failure.unanswered:
            self._note_refusal(ref, again=again)
        if again:
            return pod.metadata.resource_version
        raise BindingError(sentence) from failure

    def _note_refusal(self, ref: PodRef, *, again: bool) -> None:
        """Record that the only Binding of a pod was rejected. Unless it is sent again, release the reservation."""
        self.outcomes.discard(ref.uid)
        if not again:
            self._release(ref)

    def _release(self, ref: PodRef) -> None:
        self._ledger.release(ref.uid)
        self._on_released(ref.uid)

    def _is_own_reservation(self, ref: PodRef) -> bool:
        # If the reservation belongs to an earlier Binding that was accepted or got no response, a rejection of this
        # Binding must not release it.
        held = self._ledger.find_holding(ref.uid)
        return held is not None and held.stage is ShareStage.RESERVED and ref.uid not in self.outcomes

    def _take_bound(self, ref: PodRef, pod: Pod, node: str) -> None:
        """Apply a pod that was read and is already bound.

        Raises:
            BindingError: the pod is bound to another node.
        """
        self.outcomes.take_read(ref, pod)
        if pod.spec.node_name != node:
            raise BindingError(f"pod {ref} is already bound to node {pod.spec.node_name}")
