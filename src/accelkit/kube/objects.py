"""Functions that read, write and delete single objects, including objects that may not exist."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient
from accelkit.kube.paths import build_object_path

POLL_SECONDS = 1.0


async def get_if_present(api: ApiClient, path: str) -> bytes | None:
    """Read an object; return None if it does not exist.

    Raises:
        ApiError: the API server rejected the request for another reason, or did not respond.
    """
    try:
        return await api.get(path)
    except ApiError as exc:
        if exc.not_found:
            return None
        raise


async def create_or_replace(api: ApiClient, collection: str, name: str, body: object) -> None:
    """Create an object, or replace the existing object with the same name.

    Raises:
        ApiError: the API server rejected the request or did not respond.
    """
    try:
        await api.post(collection, body)
    except ApiError as exc:
        if not exc.already_exists:
            raise
        await api.put(build_object_path(collection, name), body)


async def patch_or_create(api: ApiClient, collection: str, name: str, patch: object, body: object) -> None:
    """Apply a merge patch to an object, or create `body` if the object does not exist.

    Raises:
        ApiError: the API server rejected the request or did not respond.
    """
    try:
        await api.patch(build_object_path(collection, name), patch)
    except ApiError as exc:
        if not exc.not_found:
            raise
        await api.post(collection, body)


async def delete_if_present(api: ApiClient, path: str, options: Mapping[str, str] | None = None) -> None:
    """Delete an object with optional DeleteOptions. A missing object is not an error.

    Raises:
        ApiError: the API server rejected the request for another reason, or did not respond.
    """
    try:
        await api.delete(path, options)
    except ApiError as exc:
        if not exc.not_found:
            raise


async def delete_and_wait(api: ApiClient, path: str, deadline: float) -> None:
    """Delete an object, and wait until it no longer exists. If the API server does not respond, retry.

    Args:
        api: an open client.
        path: the path of the object.
        deadline: a time on the `time.monotonic` clock.

    Raises:
        ApiError: the API server rejected the request, or did not respond before the deadline.
        TimeoutError: the object still exists at the deadline.
    """
    while True:
        try:
            await api.delete(path)
            await api.get(path)
        except ApiError as exc:
            if exc.not_found:
                return
            if not exc.unanswered or time.monotonic() > deadline:
                raise
        if time.monotonic() > deadline:
            raise TimeoutError(path)
        await asyncio.sleep(POLL_SECONDS)
