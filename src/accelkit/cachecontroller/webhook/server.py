"""HTTPS server for the pod webhook."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, Final

import msgspec

from accelkit.cachecontroller.webhook.mutation import Mutation, Tools, is_concerned, mutate
from accelkit.cachecontroller.webhook.reviews import API, Request, ReviewedPod, read_review
from accelkit.gkm.objects import Cache
from accelkit.serving.server import BodyLimits, HttpServer, Reply
from accelkit.serving.tls import Listen
from accelkit.texts import shorten

# Path in the webhook configuration that the role installs.
PATH: Final = "/mutate-pods"
# API server limits for the length and the number of warnings.
_MAX_WARNING: Final = 256
_MOST_WARNINGS: Final = 12
# An object has at most 1.5 MiB, and the review of an update contains two objects. Small reviews have reserved memory.
LIMITS: Final = BodyLimits(
    each_bytes=4 << 20, together_bytes=32 << 20, seconds=5.0, small_bytes=256 << 10, kept_bytes=8 << 20
)
_FORBIDDEN: Final = 403
# Each API server uses one connection. The connections are served in turn, so a small number of connections limits the
# delay of a review.
_CONNECTIONS: Final = 64
# Errors that the JSON decoder raises.
_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class WebhookServer:
    """Server for the pod webhook.

    Args:
        listen: address and certificates; changed certificates are reloaded.
        find_caches: function that returns all caches from the watch; None before they have been read.
        tools: inputs of the mutation.
        look_up: function that reads the caches of given claims in a namespace from the API server, because the watch
            may be delayed.

    Attributes:
        answers: number of responses for each result: `changed`, `unchanged`, `refused`, `unready`.

    Raises:
        ConfigurationError: the port is in use, or this process does not have permission to use it.
    """

    def __init__(
        self,
        listen: Listen,
        find_caches: Callable[[], Iterable[Cache] | None],
        tools: Tools,
        look_up: Callable[[str, Collection[str]], Awaitable[Collection[Cache]]] | None = None,
    ) -> None:
        self._find_caches, self._tools, self._look_up = find_caches, tools, look_up
        self._server = HttpServer(listen, self.handle, limits=LIMITS, connections=_CONNECTIONS)
        self.answers: Counter[str] = Counter()
        self._large = asyncio.Lock()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve requests until `stop` is set.

        Raises:
            ConfigurationError: the certificates cannot be used.
        """
        await self._server.run(stop)

    async def handle(self, method: str, path: str, body: bytes) -> Reply:
        """Return the reply to a request."""
        if method != "POST" or path != PATH:
            return Reply(404, b'{"error":"only POST %s exists"}' % PATH.encode())
        try:
            request = read_review(body).request
            done = await self._mutate(request)
        except _UNREADABLE as exc:
            cause = shorten(str(exc), 300)
            return Reply(400, msgspec.json.encode({"error": f"the body is not an AdmissionReview of {API}: {cause}"}))
        if done is None:
            self.answers["unready"] += 1
            return Reply(503, b'{"error":"the caches have not been read yet; try again"}')
        self.answers["refused" if done.refusal else "changed" if done.patch else "unchanged"] += 1
        return Reply(200, msgspec.json.encode(_build_answer(request.uid, done)))

    async def _mutate(self, request: Request) -> Mutation | None:
        if request.kind.kind != "Pod" or request.operation != "CREATE":
            return Mutation()
        pod = ReviewedPod(request)
        if excess := pod.describe_excess():
            return Mutation(refusal=excess)
        read: dict[str, Cache] = {}
        looked_up: set[str] = set()
        while True:
            done = await self._judge(pod, request, read)
            if done is None or self._look_up is None:
                return done
            names = set(done.unknown) - looked_up
            if not names:
                return done
            # Release decoded data during the lookup, but keep the result for an unchanged pod.
            unchanged = None if done.patch else done
            del done
            found = await self._look_up(request.namespace, names)
            if not found and unchanged is not None:
                return unchanged
            looked_up |= names
            read |= {each.key: each for each in found}

    async def _judge(self, pod: ReviewedPod, request: Request, read: Mapping[str, Cache]) -> Mutation | None:
        """Return the result of the mutation of a pod; None if the caches have not been read yet."""
        if len(request.object) <= LIMITS.small_bytes:
            return self._judge_now(pod, request.namespace, read)
        async with self._large:
            # Large pods are handled sequentially, and small pods in the queue are handled before each large pod.
            await asyncio.sleep(0)
            return self._judge_now(pod, request.namespace, read)

    def _judge_now(self, pod: ReviewedPod, namespace: str, read: Mapping[str, Cache]) -> Mutation | None:
        watched = self._find_caches()
        if watched is None:
            return None
        caches = (*(each for each in watched if each.key not in read), *read.values())
        found = pod.read_volumes()
        if is_concerned(found, namespace, caches):
            found = pod.read()
        return mutate(found, namespace, caches, self._tools)


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
