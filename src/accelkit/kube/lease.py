"""Leader election with a Lease (coordination.k8s.io), according to the same rules as in client-go.

The clocks of different hosts are never compared. A Lease has expired if its record has not changed for the duration of
the Lease, measured with the local monotonic clock. The term of a leader starts before it sends the renewal. The term
ends early enough that all writes from this term have succeeded or failed before another candidate can become the
leader.

The leader election in the `kubernetes` package is not used, because it blocks a thread.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import msgspec

from accelkit.errors import ApiError, ConfigurationError
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import UNREADABLE
from accelkit.kube.objects import delete_if_present, get_if_present
from accelkit.kube.paths import build_leases_path, build_object_path
from accelkit.model.object_meta import ObjectMeta

log = logging.getLogger(__name__)

LEASE_SECONDS = 15
# A write that is sent at the end of the term must complete within 5 s, before the Lease expires.
TERM_SECONDS = 9.0
_RETRY_SECONDS = 2.0


class _Spec(msgspec.Struct, rename="camel", omit_defaults=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _Lease(msgspec.Struct, rename="camel"):
    metadata: ObjectMeta
    spec: _Spec = msgspec.field(default_factory=_Spec)
    api_version: str = "coordination.k8s.io/v1"
    kind: str = "Lease"


_decoder = msgspec.json.Decoder(_Lease)


@dataclass(frozen=True, slots=True)
class LeaseName:
    """The namespace and name of a Lease."""

    namespace: str
    name: str


# This Lease ensures that only one playbook run changes a cluster at any time.
RUN_LEASE: Final = LeaseName("kube-system", "accelkit-run")
RUN_LEASE_SECONDS: Final = 60


def parse_lease(text: str) -> LeaseName:
    """Parse the name of a Lease in the form `NAMESPACE/NAME`.

    Raises:
        ConfigurationError: the text does not have this form.
    """
    namespace, _, name = text.partition("/")
    if not namespace or not name or "/" in name:
        raise ConfigurationError(
            f"{text!r} is not a valid Lease name", next_step="use NAMESPACE/NAME, such as accelkit/accelkit-extender"
        )
    return LeaseName(namespace, name)


class Elector:
    """Candidate that competes for one Lease.

    Args:
        api: an open client.
        lease: the Lease, which is created if it does not exist.
        identity: the name of this candidate, which must be unique among the candidates.
        on_acquired: a function that is called when this candidate becomes the leader.
        on_lost: a function that is called when this candidate is no longer the leader. At this time, `leads` already
            returns False.
        lease_seconds: how long other candidates wait for a renewal before they acquire the Lease, in seconds. It must
            be at least LEASE_SECONDS if `term_seconds` is None.
        term_seconds: how long this candidate remains the leader after it has sent a renewal, in seconds; None for the
            duration of the Lease minus the maximum delay of a write.
        retry_seconds: the interval between renewals or attempts to acquire the Lease, in seconds; None for 2 s.
        inherit_seconds: if the previous record contained a longer duration, the records of this candidate also contain
            a longer duration for this time. The next leader then takes the same precautions.
        clock: a function that returns a monotonic time in seconds.

    Attributes:
        former_seconds: the Lease duration in the previous leader's record when this candidate acquired the Lease, in
            seconds; None if there was no record.
        resumed: whether the current or last term continues an earlier term of this candidate, and no other candidate
            was the leader in between.
    """

    def __init__(
        self,
        api: ApiClient,
        lease: LeaseName,
        identity: str,
        *,
        on_acquired: Callable[[], None],
        on_lost: Callable[[], None],
        lease_seconds: int = LEASE_SECONDS,
        term_seconds: float | None = None,
        retry_seconds: float | None = None,
        inherit_seconds: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._collection = build_leases_path(lease.namespace)
        self._path = build_object_path(self._collection, lease.name)
        self._lease = lease
        self._identity = identity
        self._on_acquired = on_acquired
        self._on_lost = on_lost
        self._lease_seconds = lease_seconds
        self._term_seconds = TERM_SECONDS + lease_seconds - LEASE_SECONDS if term_seconds is None else term_seconds
        self._retry_seconds = _RETRY_SECONDS if retry_seconds is None else retry_seconds
        self._clock = clock
        self._leading = False
        self._released = False
        # A renewal and the release must not overlap. Otherwise, each would interpret the other as a write by another
        # candidate.
        self._lock = asyncio.Lock()
        self._term_ends = 0.0
        self._observed: _Lease | None = None
        self.former_seconds: int | None = None
        self.resumed = False
        self._inherit_seconds, self._inherits_until = inherit_seconds, -math.inf
        # The last record that this candidate has tried to write; the response may have been lost.
        self._sent: _Spec | None = None
        # The acquisition that began the last term of this candidate.
        self._led_acquisition: tuple[str | None, int | None] | None = None
        self._observed_at = 0.0

    def leads(self) -> bool:
        """Return whether this candidate is the leader. The result depends only on the clock, not on the event loop."""
        return self._leading and self._clock() < self._term_ends

    @property
    def holder(self) -> str | None:
        """The identity of the holder when the Lease was last read; None if the Lease had no holder."""
        # In a released Lease, the holder is an empty string.
        return (self._observed.spec.holder_identity or None) if self._observed else None

    @property
    def held_since(self) -> str | None:
        """The time at which the holder acquired the Lease, in RFC 3339 format, according to the last read."""
        return self._observed.spec.acquire_time if self._observed else None

    @property
    def renewed_at(self) -> str | None:
        """The time of the last renewal on the holder's clock, in RFC 3339 format, according to the last read."""
        return self._observed.spec.renew_time if self._observed else None

    @property
    def _lease_ends(self) -> float:
        """The time on the local clock at which the Lease expires if it is not renewed."""
        spec = self._observed.spec if self._observed else _Spec()
        return self._observed_at + (spec.lease_duration_seconds or LEASE_SECONDS)

    async def observe(self) -> None:
        """Read the Lease.

        Raises:
            ApiError: the API server rejected the request or did not respond.
        """
        answer = await get_if_present(self._api, self._path)
        if answer is None:
            self._observed = None
        else:
            self._observe(answer)

    async def run(self) -> None:
        """Compete for the Lease until cancelled."""
        while True:
            await self.try_acquire_or_renew()
            pause = self._retry_seconds
            ends = self._term_ends if self._leading else self._lease_ends
            if (left := ends - self._clock()) > 0 or self._leading:
                pause = min(pause, max(0.0, left))
            await asyncio.sleep(pause)

    async def try_acquire_or_renew(self) -> None:
        """Try once to acquire or renew the Lease, and call the callbacks. After `release`, this method does nothing."""
        async with self._lock:
            if not self._released:
                await self._try_acquire_or_renew()

    async def _try_acquire_or_renew(self) -> None:
        sent_at = self._clock()
        # A response after the end of the term is too late. A timeout of half a term allows a retry after a lost
        # response.
        left = max(0.0, self._term_ends - sent_at) if self._leading else self._term_seconds
        deadline = min(left, self._term_seconds / 2)
        held = False
        try:
            async with asyncio.timeout(deadline):
                held = await self._acquire_or_renew()
        except TimeoutError:
            log.warning("cannot renew the Lease %s before its deadline", self._lease.name)
        except ApiError as exc:
            log.warning("cannot %s the Lease %s: %s", "renew" if self._leading else "read", self._lease.name, exc)
        if held:
            self._term_ends = sent_at + self._term_seconds
            self._led_acquisition = self._name_acquisition()
        usurped = not held and self._leading and self.holder not in {None, self._identity}
        if held and not self._leading:
            self._leading = True
            log.info("started leading identity=%s", self._identity)
            self._on_acquired()
        elif usurped or (self._leading and self._clock() >= self._term_ends):
            self._lose()

    async def release(self) -> None:
        """Release the Lease permanently, so that other candidates do not have to wait until it expires.

        Before this call, the caller must complete or cancel all work that depends on the Lease.
        """
        self._released = True
        try:
            async with asyncio.timeout(_RETRY_SECONDS), self._lock:
                await self._release()
        except (TimeoutError, ApiError) as exc:
            log.info("cannot release the Lease %s: %s", self._lease.name, exc)
        if self._leading:
            self._lose()

    async def _release(self) -> None:
        if not self.leads() or self._observed is None:
            return
        self._lose()
        transitions = self._observed.spec.lease_transitions
        # Other candidates acquire a Lease without a holder immediately, regardless of its duration.
        seconds = self._lease_seconds + 1 if self._inherits else 1
        await self._put(_Spec(holder_identity="", lease_duration_seconds=seconds, lease_transitions=transitions))

    def _lose(self) -> None:
        self._leading = False
        log.warning("stopped leading identity=%s", self._identity)
        self._on_lost()

    async def _acquire_or_renew(self) -> bool:
        if not self.leads():
            await self.observe()
        observed = self._observed
        if not self._leading:
            self.resumed = self.holder == self._identity and self._led_acquisition == self._name_acquisition()
            # The observed record may be this candidate's own acquisition, whose response was lost.
            if not self.resumed and (observed is None or observed.spec != self._sent):
                self.former_seconds = None if observed is None else observed.spec.lease_duration_seconds
                inherits = (self.former_seconds or 0) > self._lease_seconds
                self._inherits_until = self._clock() + self._inherit_seconds if inherits else -math.inf
        if observed is None:
            self._sent = self._record(None)
            lease = _Lease(ObjectMeta(self._lease.name, self._lease.namespace), self._sent)
            self._observe(await self._api.post(self._collection, lease))
            return True
        over = self.holder is None or self._clock() >= self._lease_ends
        if self.holder != self._identity and not over:
            return False
        try:
            await self._put(self._record(observed.spec))
        except ApiError as exc:
            if not exc.conflict:
                raise
            # Another candidate wrote the Lease, or the response to this candidate's own write was lost. Read the Lease
            # to find out.
            self._observe(await self._api.get(self._path))
            if not self.leads() or self.holder != self._identity:
                return False
            await self._put(self._record(observed.spec))
        return True

    def _name_acquisition(self) -> tuple[str | None, int | None] | None:
        """Return the values from the last record that identify an acquisition of the Lease."""
        return (self._observed.spec.acquire_time, self._observed.spec.lease_transitions) if self._observed else None

    async def _put(self, spec: _Spec) -> None:
        assert self._observed is not None  # noqa: S101 - callers have read the Lease
        version, self._sent = self._observed.metadata.resource_version, spec
        lease = _Lease(ObjectMeta(self._lease.name, self._lease.namespace, resource_version=version), spec)
        self._observe(await self._api.put(self._path, lease))

    @property
    def _inherits(self) -> bool:
        return self._clock() < self._inherits_until

    def _record(self, before: _Spec | None) -> _Spec:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        ours = before is not None and before.holder_identity == self._identity
        return _Spec(
            holder_identity=self._identity,
            lease_duration_seconds=self._lease_seconds + self._inherits,
            acquire_time=before.acquire_time if before and ours else now,
            renew_time=now,
            lease_transitions=0 if before is None else (before.lease_transitions or 0) + (not ours),
        )

    def _observe(self, answer: bytes) -> None:
        lease = _decode(answer, self._lease)
        if self._observed is None or lease.spec != self._observed.spec:
            self._observed_at = self._clock()
        self._observed = lease


async def read_holder(api: ApiClient, lease: LeaseName) -> str | None:
    """Return the holder of a Lease; None if the Lease does not exist or has no holder.

    Raises:
        ApiError: the API server rejected the request or did not respond, or the Lease cannot be read.
    """
    answer = await get_if_present(api, build_object_path(build_leases_path(lease.namespace), lease.name))
    # In a released Lease, the holder is an empty string.
    return None if answer is None else _decode(answer, lease).spec.holder_identity or None


def _decode(answer: bytes, lease: LeaseName) -> _Lease:
    try:
        return _decoder.decode(answer)
    except UNREADABLE as exc:
        raise ApiError(f"cannot read the Lease {lease.name}: {exc}") from exc


def build_run_elector(api: ApiClient, identity: str) -> Elector:
    """Return an elector for the Lease that playbook runs acquire before they change the cluster."""
    return Elector(
        api,
        RUN_LEASE,
        identity,
        on_acquired=lambda: None,
        on_lost=lambda: None,
        lease_seconds=RUN_LEASE_SECONDS,
    )


async def delete_run_lease(api: ApiClient, elector: Elector) -> None:
    """Delete the Lease for playbook runs if this elector holds it.

    Raises:
        ApiError: the API server rejected the request or did not respond.
    """
    if elector.leads():
        await delete_if_present(api, build_object_path(build_leases_path(RUN_LEASE.namespace), RUN_LEASE.name))
