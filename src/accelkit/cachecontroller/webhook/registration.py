"""Tells the API server which pods to send to the webhook, and whom to trust there; the leading replica keeps it so."""

from __future__ import annotations

import logging
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from accelkit.cachecontroller.webhook.matching import Claim, Exactness, build_expression, list_claims_of
from accelkit.errors import ConfigurationError
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
# Long enough for a busy API server, short for whoever waits for a pod.
_TIMEOUT_SECONDS: Final = 5
_NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"
_AUTHORITY: Final = "ca.crt"
_MOST_AUTHORITIES: Final = 8


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

    async def keep(self, caches: Iterable[Cache]) -> bool:
        """Write the configuration where it is not as it has to be for these caches; return whether it was written.

        Called for each change of a cache before it is admitted, and now and then, since others can change it.

        Raises:
            ApiError: the API server refused, or did not answer.
            ConfigurationError: the certificate cannot be read.
        """
        claims = list_claims_of(caches)
        expression, exactness = build_expression(claims)
        stored = await get_if_present(self._api, self._path)
        present: dict[str, Any] = msgspec.json.decode(stored) if stored else {}
        authorities = merge_authorities(read_authorities(self._endpoint.certificate), _get_bundle(present))
        webhook = self._build(expression, authorities)
        written = False
        if not _holds(present.get("webhooks"), webhook):
            body = {"apiVersion": API, "kind": KIND, "metadata": {"name": self._name}, "webhooks": [webhook]}
            query = {"fieldManager": FIELD_MANAGER, "force": "true"}
            await self._api.patch(self._path, body, kind="apply", query=query)
            written = True
        if exactness is not self._exactness:
            log.warning("%d claims of caches: the webhook is asked about pods by %s", len(claims), exactness.value)
        self._exactness, self._covered = exactness, claims
        return written

    def _build(self, expression: str, authorities: bytes) -> dict[str, Any]:
        client: dict[str, Any] = {"caBundle": b64encode(authorities).decode()}
        if self._endpoint.service is not None:
            namespace, name, port = self._endpoint.service
            client["service"] = {"namespace": namespace, "name": name, "port": port, "path": PATH}
        else:
            client["url"] = self._endpoint.url + PATH
        spared = {"key": _NAMESPACE_LABEL, "operator": "NotIn", "values": self._spared}
        return {
            "name": WEBHOOK,
            "admissionReviewVersions": ["v1"],
            "clientConfig": client,
            "rules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["pods"],
                    "scope": "Namespaced",
                }
            ],
            "matchConditions": [{"name": "mounts-a-kernel-cache", "expression": expression}],
            "namespaceSelector": {"matchExpressions": [spared]},
            "matchPolicy": "Equivalent",
            # Without it, a pod would write into what its neighbours run.
            "failurePolicy": "Fail",
            "reinvocationPolicy": "IfNeeded",
            "sideEffects": "None",
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


def _get_bundle(configuration: Mapping[str, Any]) -> bytes:
    for each in configuration.get("webhooks") or []:
        if each.get("name") == WEBHOOK:
            try:
                return b64decode((each.get("clientConfig") or {}).get("caBundle") or "")
            except (Base64Error, ValueError):
                return b""
    return b""


def _holds(present: object, wanted: Mapping[str, Any]) -> bool:
    """Return whether one webhook is there, with all that is wanted; the API server adds what nobody said."""
    return isinstance(present, list) and len(present) == 1 and _contains(present[0], wanted)


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
