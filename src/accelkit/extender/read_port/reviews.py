"""Reviews of client tokens and permissions by the API server."""

from __future__ import annotations

import hashlib
import time
from http import HTTPStatus
from typing import Final, NamedTuple, TypeVar

import msgspec

from accelkit.errors import AccessError, ApiError, NotReadyError
from accelkit.inspection.read_port import AUDIENCE, TOKEN_HEADER, name_read_port
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import UNREADABLE
from accelkit.kube.paths import build_collection_path
from accelkit.kube.views.api import AccessReview

_TOKEN_REVIEWS: Final = build_collection_path("authentication.k8s.io/v1", "tokenreviews")
# Time in seconds for which a response from the API server is cached, and the number of cached responses.
_KEEP_SECONDS: Final = 10.0
_KEEP_ANSWERS: Final = 256
# Time in seconds for which a token is treated as recently valid. The token is still reviewed.
_VALID_SECONDS: Final = 300.0
# Service account tokens have about 1,000 characters.
_MAX_TOKEN: Final = 16 * 1024


_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class _Refusal(NamedTuple):
    status: HTTPStatus
    message: str


class _User(msgspec.Struct, omit_defaults=True):
    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: _User = msgspec.field(default_factory=_User)
    audiences: list[str] | None = None


class _TokenReview(msgspec.Struct):
    status: _TokenStatus


class Reviewer:
    """Reviewer of tokens for the read port.

    The user of a token needs permission to `get` or `create` `services/proxy` for the port.

    Args:
        api: an open client, whose timeout limits each review.
        namespace: the namespace of the Service.
        service: the name of the Service.
    """

    def __init__(self, api: ApiClient, namespace: str, service: str) -> None:
        self._api, self._namespace, self._port = api, namespace, name_read_port(service)
        self._access_reviews = build_collection_path("authorization.k8s.io/v1", "localsubjectaccessreviews", namespace)
        # For each digest of a token and verb: the expiry time, and the error; None if access is allowed.
        self._answers: dict[tuple[bytes, str], tuple[float, _Refusal | None]] = {}
        # For each digest of a token: the time until which the token is treated as recently valid.
        self._valid_until: dict[bytes, float] = {}

    def was_valid_recently(self, token: str) -> bool:
        """Return whether this token was valid recently; the token may be invalid now."""
        return time.monotonic() < self._valid_until.get(_digest(token), 0.0)

    async def check(self, token: str, verb: str = "get") -> None:
        """Check that the user of this token may read.

        Args:
            token: the token of the request.
            verb: the verb that the API server's proxy checks, `get` or `create`.

        Raises:
            AccessError: the token is invalid, or its user may not read.
            NotReadyError: the API server does not respond.
        """
        if not token or len(token) > _MAX_TOKEN or not token.isascii():
            raise AccessError(
                "this port requires a token" if not token else "the token is invalid or too long",
                status=HTTPStatus.UNAUTHORIZED,
                next_step=f"send a token for the audience {AUDIENCE} as {TOKEN_HEADER}, or as Authorization: Bearer",
            )
        digest = _digest(token)
        until, refusal = self._answers.get((digest, verb), (0.0, None))
        if time.monotonic() >= until:
            try:
                refusal = await self._review(token, verb)
            except ApiError as exc:
                raise NotReadyError(f"the API server cannot review the token: {exc}") from exc
            except UNREADABLE as exc:
                raise NotReadyError(f"cannot read the response of the API server to the review: {exc}") from exc
            self._keep(digest, verb, refusal)
        if refusal is not None:
            raise AccessError(refusal.message, status=refusal.status)

    async def _review(self, token: str, verb: str) -> _Refusal | None:
        review = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [AUDIENCE]},
        }
        found = msgspec.json.decode(await self._api.post(_TOKEN_REVIEWS, review), type=_TokenReview).status
        # An authenticator without support for audiences returns no audiences, and accepts tokens for any audience.
        if not found.authenticated or AUDIENCE not in (found.audiences or ()):
            return _Refusal(HTTPStatus.UNAUTHORIZED, f"the API server rejects the token for the audience {AUDIENCE}")
        if await self._may_read(found.user, verb):
            return None
        return _Refusal(
            HTTPStatus.FORBIDDEN,
            f"{found.user.username} may not {verb} services/proxy of {self._port} in namespace {self._namespace}",
        )

    async def _may_read(self, user: _User, verb: str) -> bool:
        subject = {"user": user.username, "uid": user.uid, "groups": user.groups or [], "extra": user.extra or {}}
        attributes = {
            "namespace": self._namespace,
            "verb": verb,
            "version": "v1",
            "resource": "services",
            "subresource": "proxy",
            "name": self._port,
        }
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "LocalSubjectAccessReview",
            "metadata": {"namespace": self._namespace},
            "spec": {**subject, "resourceAttributes": attributes},
        }
        answer = await self._api.post(self._access_reviews, review)
        return msgspec.json.decode(answer, type=AccessReview).status.allowed

    def _keep(self, digest: bytes, verb: str, refusal: _Refusal | None) -> None:
        now = time.monotonic()
        _put(self._answers, (digest, verb), (now + _KEEP_SECONDS, refusal))
        if refusal is None:
            _put(self._valid_until, digest, now + _VALID_SECONDS)
        else:
            self._valid_until.pop(digest, None)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="replace")).digest()


def _put(kept: dict[_Key, _Value], key: _Key, value: _Value) -> None:
    kept.pop(key, None)
    if len(kept) >= _KEEP_ANSWERS:
        # Remove the oldest response.
        del kept[next(iter(kept))]
    kept[key] = value
