"""Tells the API server which pods to send to the webhook, and whom to trust there; the leading replica keeps it so."""

from __future__ import annotations

import logging
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from accelkit.cachecontroller.webhook.announcements import ANNOUNCED_ANNOTATION, Announcements
from accelkit.cachecontroller.webhook.matching import Claim, Exactness, build_expression, list_claims_of
from accelkit.errors import ApiError, ConfigurationError
from accelkit.gkm.names import FIELD_MANAGER
from accelkit.gkm.objects import Cache
from accelkit.kube.client import ApiClient
from accelkit.kube.objects import get_if_present
from accelkit.kube.paths import build_collection_path, build_object_path

log = logging.getLogger(__name__)

API: Final = "admissionregistration.k8s.io/v1"
KIND: Final = "MutatingWebhookConfiguration"
CONFIGURATIONS: Final = build_collection_path(API, "mutatingwebhookconfigurations")
PATH: Final = "/mutate-pods"
WEBHOOK: Final = "pods.cache.accelkit.io"
# Where the API server announces caches before it stores them.
ANNOUNCE_PATH: Final = "/announce-caches"
ANNOUNCE_WEBHOOK: Final = "caches.cache.accelkit.io"
_RULE: Final = {"operations": ["CREATE"], "scope": "Namespaced"}
# Long enough for a busy API server, short for whoever waits for a pod.
_TIMEOUT_SECONDS: Final = 5
_NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"
_AUTHORITY: Final = "ca.crt"
_MOST_AUTHORITIES: Final = 8
_MORE_NAMESPACES: Final = (
    "request.operation == 'CREATE' || has(object.spec.workloadNamespaces) && "
    "object.spec.workloadNamespaces.exists(each, !has(oldObject.spec.workloadNamespaces) || "
    "!(each in oldObject.spec.workloadNamespaces))"
)
# Both replicas write what is announced to them.
_TRIES: Final = 5


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the API server reaches the webhook.

    Attributes:
        certificate: file of the chain with which it is served; `ca.crt` beside it says whom to trust, else it does.
        service: namespace, name and port of a Service.
        url: https://HOST:PORT, in the place of a Service.
    """

    certificate: Path
    service: tuple[str, str, int] | None = None
    url: str = ""


class Registration:
    """The webhook's configuration on the API server.

    Args:
        api: an open client.
        name: of the configuration.
        endpoint: where the webhook is served.
        spared: namespaces whose pods never wait for it, kube-system and accelkit's own.
    """

    def __init__(self, api: ApiClient, name: str, endpoint: Endpoint, spared: Sequence[str]) -> None:
        self._api, self._path = api, build_object_path(CONFIGURATIONS, name)
        self._name, self._endpoint = name, endpoint
        self._spared = sorted(dict.fromkeys(("kube-system", *spared)))
        self._covered: frozenset[Claim] = frozenset()
        self._exactness = Exactness.CLAIMS

    def covers(self, cache: Cache) -> bool:
        """Return whether pods that mount a cache were being sent when this was written last."""
        return list_claims_of([cache]) <= self._covered

    async def keep(self, caches: Iterable[Cache], announced: Iterable[Cache] = ()) -> bool:
        """Write the configuration where it is not as it has to be for these caches; return whether it was written.

        Called for each change of a cache before it is admitted, and now and then, since others can change it.

        Args:
            caches: all that there are.
            announced: those that are about to be there.

        Raises:
            ApiError: the API server refused, or did not answer.
            ConfigurationError: the certificate cannot be read.
        """
        known, new = list_claims_of(caches), list_claims_of(announced)
        for last in (*(False,) * (_TRIES - 1), True):
            try:
                return await self._keep(known, new)
            except ApiError as exc:
                # Another replica has written meanwhile, and what was announced to it must stay.
                if last or exc.status != HTTPStatus.CONFLICT:
                    raise
        raise AssertionError

    async def read_announced(self) -> frozenset[Claim]:
        """Return the claims that were announced lately, to any replica.

        Raises:
            ApiError: the API server refused, or did not answer.
        """
        stored = await get_if_present(self._api, self._path)
        return _read_announcements(msgspec.json.decode(stored) if stored else {}).claims

    async def _keep(self, known: frozenset[Claim], new: frozenset[Claim]) -> bool:
        stored = await get_if_present(self._api, self._path)
        present: dict[str, Any] = msgspec.json.decode(stored) if stored else {}
        announcements = _read_announcements(present)
        announcements.note(new)
        announcements.forget(known)
        claims = known | announcements.claims
        expression, exactness = build_expression(claims)
        authorities = merge_authorities(read_authorities(self._endpoint.certificate), _get_bundle(present))
        wanted: dict[str, Any] = {
            "apiVersion": API,
            "kind": KIND,
            "metadata": {"name": self._name, "annotations": {ANNOUNCED_ANNOTATION: announcements.write()}},
            "webhooks": [self._build_of_pods(expression, authorities), self._build_of_caches(authorities)],
        }
        written = not _contains(present, wanted)
        if written and not present:
            # Of two that make it at once, one finds it there and looks again.
            await self._api.post(CONFIGURATIONS, wanted, query={"fieldManager": FIELD_MANAGER})
        elif written:
            wanted["metadata"]["resourceVersion"] = present["metadata"]["resourceVersion"]
            query = {"fieldManager": FIELD_MANAGER, "force": "true"}
            await self._api.patch(self._path, wanted, kind="apply", query=query)
        if exactness is not self._exactness:
            log.warning("%d claims of caches: the webhook is asked about pods by %s", len(claims), exactness.value)
        self._exactness, self._covered = exactness, claims
        return written

    def _build_of_pods(self, expression: str, authorities: bytes) -> dict[str, Any]:
        spared = {"key": _NAMESPACE_LABEL, "operator": "NotIn", "values": self._spared}
        return {
            **self._build(WEBHOOK, PATH, authorities),
            "rules": [{**_RULE, "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
            "matchConditions": [{"name": "mounts-a-kernel-cache", "expression": expression}],
            "namespaceSelector": {"matchExpressions": [spared]},
            # Without it, a pod would write into what its neighbours run.
            "failurePolicy": "Fail",
            "reinvocationPolicy": "IfNeeded",
            "sideEffects": "None",
        }

    def _build_of_caches(self, authorities: bytes) -> dict[str, Any]:
        """Return what lets a cache in only when pods that mount it are sent: they may follow in the same file."""
        of = {"apiGroups": ["gkm.io"], "apiVersions": ["*"], "scope": "*"}
        made = {**_RULE, **of, "resources": ["gkmcaches", "clustergkmcaches"]}
        # Nothing but its namespaces says where pods of a cache that is there may be.
        spread = {**of, "operations": ["UPDATE"], "resources": ["clustergkmcaches"]}
        return {
            **self._build(ANNOUNCE_WEBHOOK, ANNOUNCE_PATH, authorities),
            "rules": [made, spread],
            "matchConditions": [{"name": "has-more-namespaces", "expression": _MORE_NAMESPACES}],
            # A pod that comes too early is refused and made again, a cache would not be.
            "failurePolicy": "Ignore",
            "sideEffects": "NoneOnDryRun",
        }

    def _build(self, name: str, path: str, authorities: bytes) -> dict[str, Any]:
        client: dict[str, Any] = {"caBundle": b64encode(authorities).decode()}
        if self._endpoint.service is not None:
            namespace, service, port = self._endpoint.service
            client["service"] = {"namespace": namespace, "name": service, "port": port, "path": path}
        else:
            client["url"] = self._endpoint.url + path
        return {
            "name": name,
            "admissionReviewVersions": ["v1"],
            "clientConfig": client,
            "matchPolicy": "Equivalent",
            "timeoutSeconds": _TIMEOUT_SECONDS,
        }


def read_authorities(certificate: Path) -> bytes:
    """Return whom to trust for a serving certificate, PEM: `ca.crt` beside it, else its own chain.

    Raises:
        ConfigurationError: it cannot be read.
    """
    beside = certificate.with_name(_AUTHORITY)
    path = beside if beside.is_file() else certificate
    try:
        found = path.read_bytes()
        x509.load_pem_x509_certificates(found)
    except (OSError, ValueError) as exc:
        raise ConfigurationError(f"the certificates in {path} cannot be read: {exc}") from exc
    return found


def merge_authorities(present: bytes, former: bytes, now: datetime | None = None) -> bytes:
    """Return the present authorities and those of the former that still hold.

    The other replica may serve with what the former authority signed until its Secret has come to it.
    """
    now = now or datetime.now(UTC)
    kept = {each.public_bytes(Encoding.PEM): None for each in x509.load_pem_x509_certificates(present)}
    try:
        before = x509.load_pem_x509_certificates(former)
    except ValueError:
        before = []
    for each in before:
        if each.not_valid_after_utc > now and len(kept) < _MOST_AUTHORITIES:
            kept.setdefault(each.public_bytes(Encoding.PEM))
    return b"".join(kept)


def _read_announcements(configuration: Mapping[str, Any]) -> Announcements:
    annotations = (configuration.get("metadata") or {}).get("annotations") or {}
    return Announcements.read(annotations.get(ANNOUNCED_ANNOTATION, ""))


def _get_bundle(configuration: Mapping[str, Any]) -> bytes:
    for each in configuration.get("webhooks") or []:
        if each.get("name") == WEBHOOK:
            try:
                return b64decode((each.get("clientConfig") or {}).get("caBundle") or "")
            except (Base64Error, ValueError):
                return b""
    return b""


def _contains(present: object, wanted: object) -> bool:
    if isinstance(wanted, Mapping):
        return isinstance(present, Mapping) and all(_contains(present.get(key), each) for key, each in wanted.items())
    if isinstance(wanted, list):
        return (
            isinstance(present, list)
            and len(present) == len(wanted)
            and all(_contains(there, each) for there, each in zip(present, wanted, strict=True))
        )
    return present == wanted
