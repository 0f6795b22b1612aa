"""Says whether this extender may decide, show what it knows, and bind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from accelkit.errors import NotLeadingError, NotReadyError
from accelkit.extender.leadership import Leadership

# A watch that resumes at once is no fault; an API server away for longer makes us unready.
MAX_SILENCE_SECONDS: Final = 5.0


class Readiness:
    """What must hold before a verb is answered.

    Args:
        synced: returns whether nodes and pods have been read.
        silent_seconds: returns how long the API server has said nothing.
        leadership: knows whether this replica leads; None where it is the only one.
        pods_current: returns whether the pods have been read since this replica may bind.
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
        """Return whether this replica leads now."""
        return self._leadership is None or self._leadership.leads()

    def check_synced(self) -> None:
        """Check that there is something to show.

        Raises:
            NotReadyError: nodes or pods have not been read.
        """
        if not self.synced():
            raise NotReadyError("the cluster has not been read yet")

    def check_current(self) -> None:
        """Check that decisions rest on what the API server says now.

        Raises:
            NotReadyError: nodes or pods have not been read, or the API server is away.
        """
        self.check_synced()
        if (silence := self.silent_seconds()) > MAX_SILENCE_SECONDS:
            raise NotReadyError(f"the API server has been away for {silence:.0f} s")

    def check_leading(self) -> None:
        """Check that the verbs are answered here.

        Raises:
            NotLeadingError: another replica answers them.
        """
        if self._leadership is not None:
            self._leadership.check()

    def check_binding(self) -> None:
        """Check that a Binding may be sent now.

        Raises:
            NotLeadingError: another replica binds.
            NotReadyError: the pods have not been read since this one leads.
        """
        self.check_leading()
        if not self.pods_current():
            raise NotReadyError("the pods are being read again")

    def may_bind(self) -> bool:
        """Return whether both hold: decisions rest on what the API server says now, and a Binding may be sent."""
        try:
            self.check_current()
            self.check_binding()
        except (NotReadyError, NotLeadingError):
            return False
        return True
