"""Answers the API server's questions about pods, by HTTPS."""

from __future__ import annotations

import asyncio
import logging
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any, Final

import msgspec

from accelkit.cachecontroller.webhook.claims import list_claims
from accelkit.cachecontroller.webhook.matching import Claim
from accelkit.cachecontroller.webhook.mutation import Mutation, Tools, is_concerned, mutate
from accelkit.cachecontroller.webhook.registration import ANNOUNCE_PATH, PATH
from accelkit.cachecontroller.webhook.reviews import API, Request, ReviewedPod, read_announced, read_review
from accelkit.errors import AccelkitError
from accelkit.gkm.objects import Cache
from accelkit.serving.server import BodyLimits, HttpServer, Reply
from accelkit.serving.tls import Listen
from accelkit.texts import shorten

log = logging.getLogger(__name__)

# The watch of caches may be a moment behind whoever made a cache and its pod.
_LAG_SECONDS: Final = 1.0
_POLL_SECONDS: Final = 0.05
# What the API server passes on of one warning, and of all.
_MAX_WARNING: Final = 256
_MOST_WARNINGS: Final = 12
# An object has 1.5 MiB at most, and comes twice where it is changed. Large ones leave room for small ones.
LIMITS: Final = BodyLimits(
    each_bytes=4 << 20, together_bytes=32 << 20, seconds=5.0, small_bytes=256 << 10, kept_bytes=8 << 20
)
_FORBIDDEN: Final = 403
# Caches that are announced, and wait for the configuration to be written.
_MOST_ANNOUNCEMENTS: Final = 100
# What cannot be decoded, at whatever depth.
_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class WebhookServer:
    """Serves the webhook of pods.

    Args:
        listen: where, and with which certificates; files that change are read again.
        find_caches: returns all caches as they are known now; None while they have not been read.
        tools: what pods are changed with.
        announce: told of each cache that is about to be there; returns when its pods are sent to this webhook.
        find_announced: returns the claims of which that was told lately, here or to another replica.

    Attributes:
        answers: how many there were, by what became of the pod: `changed`, `unchanged`, `refused`, `unready`.

    Raises:
        ConfigurationError: the port is taken, or may not be used.
    """

    def __init__(
        self,
        listen: Listen,
        find_caches: Callable[[], Iterable[Cache] | None],
        tools: Tools,
        announce: Callable[[Cache], Awaitable[None]] | None = None,
        find_announced: Callable[[], Awaitable[Collection[Claim]]] | None = None,
    ) -> None:
        self._find_caches, self._tools = find_caches, tools
        self._announce, self._find_announced = announce, find_announced
        self._server = HttpServer(listen, self.handle, limits=LIMITS)
        self.answers: Counter[str] = Counter()
        self._large = asyncio.Lock()
        self._announcing = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set.

        Raises:
            ConfigurationError: the certificates cannot be used.
        """
        await self._server.run(stop)

    async def handle(self, method: str, path: str, body: bytes) -> Reply:
        """Answer a request."""
        if method != "POST" or path not in {PATH, ANNOUNCE_PATH}:
            return Reply(404, b'{"error":"pods are asked about by POST of %s"}' % PATH.encode())
        try:
            request = read_review(body).request
            # A configuration by caches that were not read would leave out those that are there.
            if path == ANNOUNCE_PATH and self._find_caches() is not None:
                await self._note(request)
                return Reply(200, msgspec.json.encode(_build_answer(request.uid, Mutation())))
            done = await self._mutate(request) if path == PATH else None
        except _UNREADABLE as exc:
            return Reply(400, msgspec.json.encode({"error": f"it is not an AdmissionReview of {API}: {exc}"}))
        if done is None:
            self.answers["unready"] += 1
            return Reply(503, b'{"error":"the caches are not known yet; ask again"}')
        self.answers["refused" if done.refusal else "changed" if done.patch else "unchanged"] += 1
        return Reply(200, msgspec.json.encode(_build_answer(request.uid, done)))

    async def _note(self, request: Request) -> None:
        """Announce a cache; whatever fails, it is let in, and a pod that comes too early is refused by a policy."""
        if self._announce is None or request.dry_run:
            return
        try:
            cache = read_announced(request)
            if cache is None:
                return
            if self._announcing >= _MOST_ANNOUNCEMENTS:
                log.warning("pods of a cache that is about to be there may come too early: too many are announced")
                return
            self._announcing += 1
            try:
                await self._announce(cache)
            finally:
                self._announcing -= 1
        except (*_UNREADABLE, AccelkitError) as exc:
            log.warning("pods of a cache that is about to be there may come too early: %s", exc)

    async def _mutate(self, request: Request) -> Mutation | None:
        if request.kind.kind != "Pod" or request.operation != "CREATE":
            return Mutation()
        pod = ReviewedPod(request)
        if excess := pod.describe_excess():
            return Mutation(refusal=excess)
        until = time.monotonic() + _LAG_SECONDS
        expected: Collection[Claim] | None = None
        while True:
            done = await self._judge(pod, request)
            if done is None or not done.unknown or time.monotonic() > until:
                return done
            # Most claims that nobody knows are of no cache, and their pods do not wait.
            if expected is None and not done.refusal:
                expected = await self._read_announced()
            awaited = {name for name in done.unknown if done.refusal or (request.namespace, name) in (expected or ())}
            if not awaited:
                return done
            # Nothing decoded is held while it waits, nor decoded again in vain.
            del done
            await self._wait_for(awaited, request.namespace, until)

    async def _judge(self, pod: ReviewedPod, request: Request) -> Mutation | None:
        """Return what becomes of a pod; None while no cache is known."""
        if len(request.object) <= LIMITS.small_bytes:
            return self._judge_now(pod, request.namespace)
        async with self._large:
            # One after the other, and small ones that have come meanwhile before each.
            await asyncio.sleep(0)
            return self._judge_now(pod, request.namespace)

    def _judge_now(self, pod: ReviewedPod, namespace: str) -> Mutation | None:
        caches = self._find_caches()
        if caches is None:
            return None
        caches = tuple(caches)
        found = pod.read_volumes()
        if is_concerned(found, namespace, caches):
            found = pod.read()
        return mutate(found, namespace, caches, self._tools)

    async def _wait_for(self, names: set[str], namespace: str, until: float) -> None:
        """Return when one of these claims is known, or the time is over."""
        while time.monotonic() <= until:
            await asyncio.sleep(_POLL_SECONDS)
            caches = self._find_caches()
            if caches is None or not names.isdisjoint(list_claims(caches, namespace)):
                return

    async def _read_announced(self) -> Collection[Claim]:
        if self._find_announced is None:
            return ()
        try:
            return await self._find_announced()
        except AccelkitError as exc:
            log.warning("pods may come before their caches are known: %s", exc)
            return ()


def _build_answer(uid: str, done: Mutation) -> dict[str, Any]:
    response: dict[str, Any] = {"uid": uid, "allowed": not done.refusal}
    if done.refusal:
        response["status"] = {"code": _FORBIDDEN, "reason": "Forbidden", "message": shorten(done.refusal, 1000)}
    elif done.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = b64encode(msgspec.json.encode(done.patch)).decode()
    if done.warnings:
        response["warnings"] = [shorten(each, _MAX_WARNING) for each in done.warnings[:_MOST_WARNINGS]]
    return {"apiVersion": API, "kind": "AdmissionReview", "response": response}
