"""Functions that wait until a pod has completed."""

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
from accelkit.model.pod import ENDED_PHASES

# Size limit for the log of a pod, so that a faulty kubelet cannot exhaust the memory of the reader.
LOG_BYTES: Final = 4 * 2**20
# In these states, the kubelet continues to retry, usually without success.
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
        """The state of the first waiting container; empty if no container is waiting."""
        states = (each.state.get("waiting") for each in self.container_statuses)
        return next((state for state in states if state), {})


class _Pod(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


_pod = msgspec.json.Decoder(_Pod)


@dataclass(frozen=True)
class PodProgress:
    """The progress of a pod.

    Attributes:
        ended: whether the pod has succeeded or failed.
        has_no_image: whether the image of the pod cannot be pulled.
        message: the latest information about the pod, as part of a sentence.
    """

    ended: bool = False
    has_no_image: bool = False
    message: str = "its status is not known yet"


async def wait_until_ended(api: ApiClient, path: str, deadline: float) -> PodProgress:
    """Wait until a pod completes or its image cannot be pulled. If the API server does not respond, retry.

    Args:
        api: an open client.
        path: the path of the pod.
        deadline: a time on the `time.monotonic` clock; the pod is read at least once.

    Raises:
        ApiError: the API server rejected the request, for example because the pod does not exist.
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
    """Read the progress of a pod.

    Raises:
        ApiError: the API server rejected the request or did not respond.
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
        ended=status.phase in ENDED_PHASES,
        has_no_image=waiting.get("reason") in _HOPELESS,
        message=next((message for message in messages if message), status.phase),
    )
