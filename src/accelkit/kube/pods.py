"""Waiting for a pod that does one thing and ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient
from accelkit.kube.objects import POLL_SECONDS

# Of a pod's log; a kubelet that lies must not fill the memory of who reads it.
LOG_BYTES: Final = 4 * 2**20
_ENDED: Final = frozenset({"Succeeded", "Failed"})
# The kubelet tries these again and again, without anything changing by it.
_HOPELESS: Final = frozenset({"ErrImageNeverPull", "ImagePullBackOff", "InvalidImageName"})


class _ContainerStatus(msgspec.Struct):
    state: dict[str, Any] = {}


class _Condition(msgspec.Struct):
    message: str = ""


class _Status(msgspec.Struct, rename="camel"):
    phase: str = "Pending"
    message: str = ""
    conditions: list[_Condition] = []
    container_statuses: list[_ContainerStatus] = []

    @property
    def waiting(self) -> Mapping[str, str]:
        """What the first container that waits says of it."""
        states = (each.state.get("waiting") for each in self.container_statuses)
        return next((state for state in states if state), {})


class _Pod(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


_pod = msgspec.json.Decoder(_Pod)


@dataclass(frozen=True)
class PodProgress:
    """How far a pod has come.

    Attributes:
        ended: whether its containers have ended for good.
        has_no_image: whether it cannot get its image.
        message: the last that is known of it, for a sentence.
    """

    ended: bool = False
    has_no_image: bool = False
    message: str = "nothing is known of it yet"


async def wait_until_ended(api: ApiClient, path: str, deadline: float) -> PodProgress:
    """Wait until a pod ends or cannot have its image; asks again where the API server does not answer.

    Args:
        api: an open client.
        path: of the pod.
        deadline: on the clock of `time.monotonic`; the pod is looked at once, however late it is.

    Raises:
        ApiError: the API server refused; the pod is not there, for one.
    """
    progress = PodProgress()
    while True:
        try:
            progress = await read_progress(api, path)
        except ApiError as exc:
            if not exc.unanswered:
                raise
            progress = PodProgress(message=str(exc))
        if progress.ended or progress.has_no_image or time.monotonic() > deadline:
            return progress
        await asyncio.sleep(POLL_SECONDS)


async def read_progress(api: ApiClient, path: str) -> PodProgress:
    """Read how far a pod has come.

    Raises:
        ApiError: the API server refused, or did not answer.
    """
    status = _pod.decode(await api.get(path)).status
    waiting = status.waiting
    messages = (
        status.message,
        waiting.get("message"),
        *(each.message for each in status.conditions),
        waiting.get("reason"),
    )
    return PodProgress(
        ended=status.phase in _ENDED,
        has_no_image=waiting.get("reason") in _HOPELESS,
        message=next((message for message in messages if message), status.phase),
    )
