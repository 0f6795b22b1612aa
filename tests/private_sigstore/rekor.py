"""A transparency log as Rekor v1.

Each entry lies in a tree of its own, as the second of two leaves: the smallest tree in which its place matters.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import rfc8785

from private_sigstore.keys import LogIdentity, b64

__all__ = ["LogEntry", "dsse_body", "hashedrekord_body", "intoto_body", "logged"]

_NAME = "rekor.private.test"
# cosign knows a log for Rekor v1 by the tree's number in its origin, and reads log indexes differently without it.
_ORIGIN = f"{_NAME} - 2605736670972794746"

_FIRST_LEAF = hashlib.sha256(b"\0the first entry of every tree").digest()


@dataclass(frozen=True)
class LogEntry:
    """An entry with what the log says about it; `dataclasses.replace` makes it lie."""

    body: bytes
    log_id: bytes
    log_index: int
    integrated_time: int
    signed_entry_timestamp: bytes
    checkpoint: str

    def as_bundle(self) -> dict[str, Any]:
        """As it stands in `tlogEntries` of a bundle."""
        entry = json.loads(self.body)
        return {
            "logIndex": str(self.log_index),
            "logId": {"keyId": b64(self.log_id)},
            "kindVersion": {"kind": entry["kind"], "version": entry["apiVersion"]},
            "integratedTime": str(self.integrated_time),
            "inclusionPromise": {"signedEntryTimestamp": b64(self.signed_entry_timestamp)},
            "inclusionProof": {
                "logIndex": "1",
                "rootHash": b64(_root_hash(self.body)),
                "treeSize": "2",
                "hashes": [b64(_FIRST_LEAF)],
                "checkpoint": {"envelope": self.checkpoint},
            },
            "canonicalizedBody": b64(self.body),
        }

    def as_annotation(self) -> dict[str, Any]:
        """As it stands in the annotation `dev.sigstore.cosign/bundle`."""
        payload = {
            "body": b64(self.body),
            "integratedTime": self.integrated_time,
            "logIndex": self.log_index,
            "logID": self.log_id.hex(),
        }
        return {"SignedEntryTimestamp": b64(self.signed_entry_timestamp), "Payload": payload}


def logged(log: LogIdentity, body: bytes, *, at: datetime, log_index: int = 7) -> LogEntry:
    """Enter a body at a moment; only its full seconds count."""
    seconds = int(at.timestamp())
    said: Any = {"body": b64(body), "integratedTime": seconds, "logID": log.log_id.hex(), "logIndex": log_index}
    note = f"{_ORIGIN}\n2\n{b64(_root_hash(body))}\n"
    signature = b64(log.log_id[:4] + log.key.sign(note.encode()))
    checkpoint = f"{note}\n\N{EM DASH} {_NAME} {signature}\n"
    return LogEntry(body, log.log_id, log_index, seconds, log.key.sign(rfc8785.dumps(said)), checkpoint)


def dsse_body(envelope: bytes, payload: bytes, signatures: Sequence[bytes], verifier_pem: bytes) -> bytes:
    """The body of an entry of kind dsse 0.0.1 for an envelope's JSON."""
    spec: Any = {
        "envelopeHash": _hash(envelope),
        "payloadHash": _hash(payload),
        "signatures": [{"signature": b64(each), "verifier": b64(verifier_pem)} for each in signatures],
    }
    return rfc8785.dumps({"apiVersion": "0.0.1", "kind": "dsse", "spec": spec})


def intoto_body(envelope: bytes, verifier_pem: bytes, *, payload: bytes | None = None) -> bytes:
    """The body of an entry of kind intoto 0.0.2 for an envelope's JSON; `payload` is what it says that it holds.

    The log takes the texts of the envelope, which are base64, for bytes, and so wraps them once more.
    """
    document = json.loads(envelope)
    own = base64.b64decode(document["payload"])
    content: Any = {
        "envelope": {
            "payloadType": document["payloadType"],
            "signatures": [
                {"sig": b64(each["sig"].encode()), "publicKey": b64(verifier_pem)} for each in document["signatures"]
            ],
        },
        "hash": _hash(envelope),
        "payloadHash": _hash(own),
    }
    if payload is not None:
        content["envelope"]["payload"] = b64(b64(payload).encode())
    return rfc8785.dumps({"apiVersion": "0.0.2", "kind": "intoto", "spec": {"content": content}})


def hashedrekord_body(data: bytes, signature: bytes, verifier_pem: bytes) -> bytes:
    """The body of an entry of kind hashedrekord 0.0.1 for signed data."""
    public = {"content": b64(verifier_pem)}
    spec: Any = {"data": {"hash": _hash(data)}, "signature": {"content": b64(signature), "publicKey": public}}
    return rfc8785.dumps({"apiVersion": "0.0.1", "kind": "hashedrekord", "spec": spec})


def _hash(data: bytes) -> dict[str, str]:
    return {"algorithm": "sha256", "value": hashlib.sha256(data).hexdigest()}


def _root_hash(body: bytes) -> bytes:
    return hashlib.sha256(b"\1" + _FIRST_LEAF + hashlib.sha256(b"\0" + body).digest()).digest()
