"""What is known of the monitoring of a cluster: what has the agents scraped, and what each agent showed when asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from accelkit.enablement.facts.unread import Unread


@dataclass(frozen=True, slots=True)
class Shown:
    """What an agent showed at `/metrics`: the identities of the cards of which it has series, and how many series."""

    cards: frozenset[str]
    series: int


@dataclass(frozen=True, slots=True)
class NotServed:
    """An agent that serves no metrics, since its port is 0."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A cluster where something has accelkit's services scraped.

    Attributes:
        by: what does, as a part of a sentence.
        agents: what the agent of each node showed, or why nobody knows; a node without a ready agent is not there.
    """

    by: str
    agents: Mapping[str, Shown | NotServed | Unread] = field(default_factory=dict)
