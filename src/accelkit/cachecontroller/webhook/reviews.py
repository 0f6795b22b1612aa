"""Decoder for admission reviews, which reads only the fields that the webhook uses.

Any client that can reach the port can send 4 MiB of JSON, and decoded JSON can require thirty times as much memory.
Therefore, the fields of a pod are stored as undecoded text until they are needed. They are decoded only if the number
of delimiters, which bounds the required memory, is within a limit.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec

from accelkit.cachecontroller.webhook.annotation import DEFAULT_CONTAINER
from accelkit.cachecontroller.webhook.pods import Object
from accelkit.model.keys import CACHE_MOUNT_ANNOTATION, CACHE_PINNED_ANNOTATION, CACHE_WRITABLE_ANNOTATION

API: Final = "admission.k8s.io/v1"
# Each delimiter starts or ends at most one value, and a value needs at most 83 bytes in addition to its text.
# Therefore, the limit corresponds to 17 MiB. A pod that the API server can store has at most 1.5 MiB of text, and fewer
# delimiters.
MOST_DELIMITERS: Final = 200_000
_DELIMITERS: Final = (b",", b"[", b"{", b":")
_NOTHING: Final = msgspec.Raw()
# Fields of the spec that the webhook reads: attribute, and JSON name.
_SPEC_PARTS: Final = {
    "volumes": "volumes",
    "init_containers": "initContainers",
    "containers": "containers",
    "ephemeral_containers": "ephemeralContainers",
    "affinity": "affinity",
    "security_context": "securityContext",
}


class _Kind(msgspec.Struct):
    kind: str = ""


class Request(msgspec.Struct, rename="camel"):
    """Request in a review. `object` is the undecoded text of the reviewed object."""

    # Maximum length of the UID, which is copied into the response; otherwise, a client could make the response large.
    uid: Annotated[str, msgspec.Meta(max_length=128)]
    dry_run: bool = False
    namespace: str = ""
    operation: str = ""
    kind: _Kind = msgspec.field(default_factory=_Kind)
    object: msgspec.Raw = _NOTHING


class Review(msgspec.Struct, rename="camel"):
    """An AdmissionReview."""

    api_version: Literal["admission.k8s.io/v1"]
    kind: Literal["AdmissionReview"]
    request: Request


class _Annotations(msgspec.Struct, omit_defaults=True):
    mount: str | None = msgspec.field(default=None, name=CACHE_MOUNT_ANNOTATION)
    pinned: str | None = msgspec.field(default=None, name=CACHE_PINNED_ANNOTATION)
    writable: str | None = msgspec.field(default=None, name=CACHE_WRITABLE_ANNOTATION)
    default_container: str | None = msgspec.field(default=None, name=DEFAULT_CONTAINER)


class _PodMeta(msgspec.Struct, omit_defaults=True):
    name: str = ""
    annotations: _Annotations | None = None


class _PodSpec(msgspec.Struct, rename="camel"):
    volumes: msgspec.Raw = _NOTHING
    init_containers: msgspec.Raw = _NOTHING
    containers: msgspec.Raw = _NOTHING
    ephemeral_containers: msgspec.Raw = _NOTHING
    affinity: msgspec.Raw = _NOTHING
    security_context: msgspec.Raw = _NOTHING


class _Pod(msgspec.Struct):
    metadata: _PodMeta = msgspec.field(default_factory=_PodMeta)
    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)


_reviews = msgspec.json.Decoder(Review)
_pods = msgspec.json.Decoder(_Pod | None)
_objects = msgspec.json.Decoder(list[Object] | None)
_object = msgspec.json.Decoder(Object | None)
_PARTS: Final[dict[str, msgspec.json.Decoder[Any]]] = {
    name: _object if name in {"affinity", "securityContext"} else _objects for name in _SPEC_PARTS.values()
}


def read_review(body: bytes) -> Review:
    """Decode a review without its object.

    Raises:
        MsgspecError: the body is not a valid AdmissionReview.
    """
    return _reviews.decode(body)


class ReviewedPod:
    """Pod in a review. Each call decodes the fields again, so that only text is stored for a waiting review.

    Args:
        request: request in the review.

    Raises:
        MsgspecError: the object is not a valid pod.
    """

    def __init__(self, request: Request) -> None:
        found = (_pods.decode(request.object) if request.object else None) or _Pod()
        self._metadata: Object = msgspec.to_builtins(found.metadata)
        self._parts = {
            name: part for field, name in _SPEC_PARTS.items() if (part := getattr(found.spec, field)) is not _NOTHING
        }

    def describe_excess(self) -> str:
        """Return the reason why decoding the fields would require too much memory; empty if it would not."""
        count = sum(_count_delimiters(part) for part in self._parts.values())
        if count > MOST_DELIMITERS:
            return (
                f"the pod has {count} values and keys in its volumes and containers, over the limit of "
                f"{MOST_DELIMITERS} for pods that may mount kernel caches"
            )
        return ""

    def read_volumes(self) -> Object:
        """Return the pod with only its name, accelkit's annotations and its volumes.

        Raises:
            MsgspecError: the object is not a valid pod.
        """
        return self._read({"volumes"})

    def read(self) -> Object:
        """Return the pod with only its name, accelkit's annotations and the spec fields that the webhook uses.

        Raises:
            MsgspecError: the object is not a valid pod.
        """
        return self._read(set(self._parts))

    def _read(self, names: set[str]) -> Object:
        spec = {name: _PARTS[name].decode(part) for name, part in self._parts.items() if name in names}
        annotations = self._metadata.get("annotations")
        metadata = {**self._metadata, **({} if annotations is None else {"annotations": dict(annotations)})}
        return {"metadata": metadata, "spec": spec}


def _count_delimiters(part: msgspec.Raw) -> int:
    text = bytes(part)
    return sum(text.count(each) for each in _DELIMITERS)
