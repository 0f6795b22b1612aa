"""What an honest registry of the OCI distribution specification answers, from memory.

It is the ground that `HostileRegistry` misbehaves on: pulls with ranges, pushes in all three ways, tags and referrers.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from aiohttp import web

__all__ = ["INDEX", "MANIFEST", "MemoryRegistry", "digest_of", "refusal"]

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"

_NAME = r"/v2/(?P<repository>.+)"
_DIGEST = r"sha256:[0-9a-f]{64}"
_BLOB = re.compile(rf"{_NAME}/blobs/(?P<digest>{_DIGEST})")
_UPLOAD = re.compile(rf"{_NAME}/blobs/uploads/(?P<session>[0-9a-f-]*)")
_MANIFEST = re.compile(rf"{_NAME}/manifests/(?P<reference>[^/]+)")
_REFERRERS = re.compile(rf"{_NAME}/referrers/(?P<digest>{_DIGEST})")
_TAGS = re.compile(rf"{_NAME}/tags/list")
_ROOT = re.compile(r"/v2/?")
_RANGE = re.compile(r"bytes=(?P<first>\d+)-(?P<last>\d*)")


def digest_of(body: bytes) -> str:
    """The digest a registry names these bytes by."""
    return "sha256:" + hashlib.sha256(body).hexdigest()


class MemoryRegistry:
    """Repositories in memory.

    Args:
        referrers: whether the referrers API exists; without it, it answers 404 as older registries do.
    """

    def __init__(self, *, referrers: bool) -> None:
        self._referrers = referrers
        self._blobs: dict[str, dict[str, bytes]] = defaultdict(dict)
        self._manifests: dict[str, dict[str, tuple[str, bytes]]] = defaultdict(dict)
        self._tags: dict[str, dict[str, str]] = defaultdict(dict)
        self._uploads: dict[str, bytes] = {}

    def put_blob(self, repository: str, body: bytes) -> str:
        """Keep a blob; its digest is returned."""
        digest = digest_of(body)
        self._blobs[repository][digest] = body
        return digest

    def put_manifest(self, repository: str, tag: str | None, body: bytes, media_type: str = MANIFEST) -> str:
        """Keep a manifest, under a tag too where one is given; its digest is returned. The bytes need not be JSON."""
        digest = digest_of(body)
        self._manifests[repository][digest] = (media_type, body)
        if tag is not None:
            self._tags[repository][tag] = digest
        return digest

    def manifest(self, repository: str, reference: str) -> bytes | None:
        """The manifest of a tag or digest, or None where there is none."""
        found = self._manifests[repository].get(self._tags[repository].get(reference, reference))
        return found[1] if found else None

    def blob(self, repository: str, digest: str) -> bytes | None:
        """The blob of a digest, or None where there is none."""
        return self._blobs[repository].get(digest)

    async def answer(self, request: web.Request) -> web.Response:
        """What an honest registry answers to this request."""
        routes = (
            (_UPLOAD, self._upload),
            (_MANIFEST, self._manifest),
            (_BLOB, self._blob),
            (_REFERRERS, self._list_referrers),
            (_TAGS, self._list_tags),
            (_ROOT, self._root),
        )
        body = await request.read()
        for pattern, route in routes:
            if found := pattern.fullmatch(request.path):
                return route(request, body, **found.groupdict())
        return refusal(404, "UNSUPPORTED")

    def _root(self, _request: web.Request, _body: bytes) -> web.Response:
        return web.json_response({}, headers={"Docker-Distribution-Api-Version": "registry/2.0"})

    def _list_tags(self, _request: web.Request, _body: bytes, repository: str) -> web.Response:
        return web.json_response({"name": repository, "tags": sorted(self._tags[repository])})

    def _manifest(self, request: web.Request, body: bytes, repository: str, reference: str) -> web.Response:
        if request.method == "PUT":
            return self._push(request, repository, reference, body)
        return self._pull(repository, reference)

    def _pull(self, repository: str, reference: str) -> web.Response:
        digest = self._tags[repository].get(reference, reference)
        found = self._manifests[repository].get(digest)
        if found is None:
            return refusal(404, "MANIFEST_UNKNOWN")
        media_type, body = found
        return web.Response(body=body, content_type=media_type, headers={"Docker-Content-Digest": digest})

    def _push(self, request: web.Request, repository: str, reference: str, body: bytes) -> web.Response:
        by_digest = ":" in reference
        if by_digest and digest_of(body) != reference:
            return refusal(400, "DIGEST_INVALID")
        digest = self.put_manifest(repository, None if by_digest else reference, body, request.content_type)
        headers = {"Docker-Content-Digest": digest, "Location": f"/v2/{repository}/manifests/{digest}"}
        if self._referrers and (subject := _document(body).get("subject")):
            headers["OCI-Subject"] = subject["digest"]
        return web.Response(status=201, headers=headers)

    def _blob(self, request: web.Request, _body: bytes, repository: str, digest: str) -> web.Response:
        body = self._blobs[repository].get(digest)
        if body is None:
            return refusal(404, "BLOB_UNKNOWN")
        headers = {"Docker-Content-Digest": digest, "Accept-Ranges": "bytes", "ETag": f'"{digest}"'}
        wanted = _RANGE.fullmatch(request.headers.get("Range", ""))
        if wanted is None or request.headers.get("If-Range", headers["ETag"]) != headers["ETag"]:
            return web.Response(body=body, content_type="application/octet-stream", headers=headers)
        first = int(wanted["first"])
        if first >= len(body):
            return web.Response(status=416, headers={"Content-Range": f"bytes */{len(body)}"})
        last = min(int(wanted["last"] or len(body)), len(body) - 1)
        headers["Content-Range"] = f"bytes {first}-{last}/{len(body)}"
        part = body[first : last + 1]
        return web.Response(status=206, body=part, content_type="application/octet-stream", headers=headers)

    def _upload(self, request: web.Request, body: bytes, repository: str, session: str) -> web.Response:
        query = request.query
        if request.method == "POST" and not session:
            mounted = self._blobs[query.get("from", repository)].get(query.get("mount", ""))
            if mounted is not None:
                return self._stored(repository, self.put_blob(repository, mounted))
            session = str(uuid.uuid4())
            self._uploads[session] = b""
        if session not in self._uploads:
            return refusal(404, "BLOB_UPLOAD_UNKNOWN")
        content = self._uploads[session] = self._uploads[session] + body
        if "digest" in query:
            del self._uploads[session]
            if digest_of(content) != query["digest"]:
                return refusal(400, "DIGEST_INVALID")
            return self._stored(repository, self.put_blob(repository, content))
        headers = {"Location": f"/v2/{repository}/blobs/uploads/{session}", "Range": f"0-{max(len(content) - 1, 0)}"}
        return web.Response(status=202, headers=headers)

    def _stored(self, repository: str, digest: str) -> web.Response:
        headers = {"Docker-Content-Digest": digest, "Location": f"/v2/{repository}/blobs/{digest}"}
        return web.Response(status=201, headers=headers)

    def _list_referrers(self, request: web.Request, _body: bytes, repository: str, digest: str) -> web.Response:
        if not self._referrers:
            return refusal(404, "UNSUPPORTED")
        found = []
        for own, (media_type, body) in self._manifests[repository].items():
            document = _document(body)
            if (document.get("subject") or {}).get("digest") != digest:
                continue
            kind = document.get("artifactType") or (document.get("config") or {}).get("mediaType")
            described = {"mediaType": media_type, "digest": own, "size": len(body), "artifactType": kind}
            found.append({**described, "annotations": document.get("annotations") or {}})
        headers = {}
        if wanted := request.query.get("artifactType"):
            found = [each for each in found if each["artifactType"] == wanted]
            headers["OCI-Filters-Applied"] = "artifactType"
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": found}
        return web.Response(body=json.dumps(index).encode(), content_type=INDEX, headers=headers)


def refusal(status: int, code: str, headers: Mapping[str, str] | None = None) -> web.Response:
    """An error in the words of the distribution specification."""
    body = {"errors": [{"code": code, "message": f"{code.lower().replace('_', ' ')}, says the test"}]}
    return web.json_response(body, status=status, headers=headers)


def _document(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
