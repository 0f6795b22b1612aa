"""From what is seen of a card to what is said of it: what changed for the worse since it was first seen, steadied.

Hysteresis: one bad look may be a card under reset, so it takes two; well again is only who stays well for some minutes.
What cannot be read is unknown, which never makes a healthy card unhealthy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from accelkit.model.card import Health
from accelkit.node.health.signals import Sight

# Two looks in a row, so that a reset or a driver's reload of a moment is none.
_BAD_LOOKS = 2
# An error counter stays where it is, so only time tells that nothing more came; repeats come within minutes.
_QUIET_SECONDS = 300.0


@dataclass(slots=True)
class CardHistory:
    """One card over time.

    Attributes:
        health: what is said of it.
        reason: why it is not healthy.
    """

    health: Health = Health.HEALTHY
    reason: str = ""
    _first: Sight | None = None
    _errors: dict[str, int] = field(default_factory=dict)
    _bad_looks: int = 0
    _last_bad: float | None = None

    def see(self, sight: Sight, now: float, *, reported: str = "", wrong: str = "") -> None:
        """Take a look into account.

        Args:
            sight: the card's files.
            now: seconds, never backwards.
            reported: an error that the driver told of since the last look, as a sentence.
            wrong: what is wrong with the card in any case, as a sentence.
        """
        troubles = [*self._troubles(sight), *([wrong] if wrong else [])]
        first = self._first or Sight()
        # What was not seen yet is a baseline from the day it is.
        self._first = Sight(
            present=True if sight.present else first.present,
            driver=first.driver or sight.driver,
            answers=True if sight.answers else first.answers,
            link_width=first.link_width or sight.link_width,
            nodes=first.nodes | sight.nodes,
        )
        if reported:
            # The driver does not err for a moment.
            self._bad_looks = _BAD_LOOKS
            troubles.append(reported)
        if troubles:
            self._bad_looks += not reported
            self._last_bad = now
            if self._bad_looks >= _BAD_LOOKS:
                self.health, self.reason = Health.UNHEALTHY, "; ".join(troubles)
            return
        if self._last_bad is not None and now - self._last_bad < _QUIET_SECONDS and self.health is Health.UNHEALTHY:
            return
        self._bad_looks = 0
        blind = sight.unread and sight.present is not True
        if self.health is Health.UNHEALTHY and blind:
            return
        self.health = Health.UNKNOWN if blind else Health.HEALTHY
        self.reason = f"{', '.join(sight.unread)} cannot be read" if blind else ""

    def _troubles(self, sight: Sight) -> Iterator[str]:
        first = self._first or Sight()
        if sight.present is False and first.present:
            yield "the card is gone from the PCI bus"
        elif sight.answers is False:
            yield "the card does not answer on the PCI bus"
        if sight.driver == "" and first.driver:
            yield f"the driver {first.driver} is not bound to it any more"
        elif sight.driver and first.driver and sight.driver != first.driver:
            yield f"the driver {sight.driver} has taken it from {first.driver}"
        if sight.link_width and first.link_width and sight.link_width < first.link_width:
            yield f"its PCI link is down to {sight.link_width} of {first.link_width} lanes"
        if missing := sorted(first.nodes - sight.nodes):
            yield f"device node {', '.join(missing)} is missing"
        for name, count in sorted(sight.errors.items()):
            before = self._errors.setdefault(name, count)
            if count > before:
                yield f"{count - before} uncorrected errors in {name}"
            self._errors[name] = count
