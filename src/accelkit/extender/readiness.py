"""Conditions under which this replica of the extender may serve the verbs, report its state, and bind pods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from accelkit.errors import NotLeadingError, NotReadyError
from accelkit.extender.leadership import Leadership

# Maximum time without a response from the API server; afterwards, this replica is not ready. A watch that resumes
# immediately is not considered a fault.
MAX_SILENCE_SECONDS: Final = 5.0


class Readiness:
    """Conditions for serving a verb.

    Args:
        synced: a function that returns whether nodes and pods have been read.
        silent_seconds: a function that returns the time since the last response from the API server.
        leadership: the leader election; None if this is the only replica.
        pods_current: a function that returns whether the pods have been read since this replica became the leader.
    """

    def __init__(
        self,
        *,
        synced: Callable[[], bool],
        silent_seconds: Callable[[], float],
        leadership: Leadership | None = None,
        pods_current: Callable[[], bool] = lambda: True,
    ) -> None:
        self.synced = synced
        self.silent_seconds = silent_seconds
        self.pods_current = pods_current
        self._leadership = leadership

    def leads(self) -> bool:
        """Return whether this replica is the leader."""
        return self._leadership is None or self._leadership.leads()

    def check_synced(self) -> None:
        """Check that nodes and pods have been read.

        Raises:
            NotReadyError: nodes or pods have not been read.
        """
        if not self.synced():
            raise NotReadyError("the cluster has not been read yet")

    def check_current(self) -> None:
        """Check that the data from the API server is current.

        Raises:
            NotReadyError: nodes or pods have not been read, or the API server does not respond.
        """
        self.check_synced()
        if (silence := self.silent_seconds()) > MAX_SILENCE_SECONDS:
            raise NotReadyError(f"the API server has been unreachable for {silence:.0f} s")

    def check_leading(self) -> None:
        """Check that this replica serves the verbs.

        Raises:
            NotLeadingError: another replica serves the verbs.
        """
        if self._leadership is not None:
            self._leadership.check()

    def check_binding(self) -> None:
        """Check that a Binding may be sent now.

        Raises:
            NotLeadingError: another replica is the leader.
            NotReadyError: the pods have not been read since this replica became the leader.
        """
        self.check_leading()
        if not self.pods_current():
            raise NotReadyError("the pods are being read again")

    def may_bind(self) -> bool:
        """Return whether the data from the API server is current, and a Binding may be sent."""
        try:
            self.check_current()
            self.check_binding()
        except (NotReadyError, NotLeadingError):
            return False
        return True
