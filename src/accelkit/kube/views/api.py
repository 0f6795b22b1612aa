"""Responses from the API server that are not stored objects."""

from __future__ import annotations

import msgspec


class ServerVersion(msgspec.Struct, rename="camel"):
    """The response from `/version`."""

    git_version: str


class ApiResource(msgspec.Struct):
    """A kind that the API server serves, or one of its subresources. The name of a subresource contains a slash."""

    name: str = ""
    kind: str = ""
    namespaced: bool = False


class ApiResources(msgspec.Struct):
    """The kinds in one API version."""

    resources: list[ApiResource] = []


class _AccessStatus(msgspec.Struct):
    allowed: bool = False


class AccessReview(msgspec.Struct):
    """The response to any access review, such as a SelfSubjectAccessReview."""

    status: _AccessStatus
