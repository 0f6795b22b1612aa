"""What lies in a registry under one digest, and how it gets there."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPMessage
from typing import Any

from registries.memory import MANIFEST, digest_of

__all__ = ["Artifact", "push"]

_SECONDS = 60.0


@dataclass(frozen=True)
class Artifact:
    """A manifest and the blobs it names, ready to be pushed."""

    manifest: bytes
    blobs: tuple[bytes, ...] = ()
    media_type: str = MANIFEST

    @property
    def digest(self) -> str:
        return digest_of(self.manifest)

    @property
    def descriptor(self) -> dict[str, Any]:
        """How another manifest names this one; of a referrer, as it stands in a list of referrers."""
        document = json.loads(self.manifest)
        described = {"mediaType": self.media_type, "digest": self.digest, "size": len(self.manifest)}
        return described | {name: document[name] for name in ("artifactType",) if name in document}


def push(
    url: str, repository: str, artifact: Artifact, *, tag: str | None = None, headers: Mapping[str, str] | None = None
) -> str:
    """Push blobs, then the manifest, by plain means; the manifest's digest is returned.

    Args:
        url: `http://HOST:PORT` of the registry.
        repository: the name after that.
        artifact: what to push.
        tag: the tag to set; by digest alone without it.
        headers: sent with each request, for credentials.
    """
    base = f"{url}/v2/{repository}"
    headers = dict(headers or {})
    for blob in artifact.blobs:
        location = _send("POST", f"{base}/blobs/uploads/", b"", headers)["Location"]
        where = location if "://" in location else url + location
        joined = f"{where}{'&' if '?' in where else '?'}digest={digest_of(blob)}"
        _send("PUT", joined, blob, {**headers, "Content-Type": "application/octet-stream"})
    typed = {**headers, "Content-Type": artifact.media_type}
    _send("PUT", f"{base}/manifests/{tag or artifact.digest}", artifact.manifest, typed)
    return artifact.digest


def _send(method: str, url: str, body: bytes, headers: Mapping[str, str]) -> HTTPMessage:
    request = urllib.request.Request(url, data=body, headers=dict(headers), method=method)  # noqa: S310 - our own server
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310 - the same
            received: HTTPMessage = answer.headers
            return received
    except urllib.error.HTTPError as error:
        with error:
            raise AssertionError(f"{method} {url}: {error.code} {error.read()[:500]!r}") from error
