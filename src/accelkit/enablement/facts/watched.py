"""Monitoring of a cluster: the object that configures scraping, and the metrics that each agent served."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from accelkit.enablement.facts.unread import Unread


@dataclass(frozen=True, slots=True)
class AgentMetrics:
    """The metrics that an agent served: the IDs of the cards that have series, and the number of series."""

    cards: frozenset[str]
    series: int


@dataclass(frozen=True, slots=True)
class NotServed:
    """An agent that serves no metrics, because its port is 0."""


@dataclass(frozen=True, slots=True)
class Monitoring:
    """A cluster in which accelkit's services are scraped.

    Attributes:
        by: the object that configures this, as a part of a sentence.
        agents: by node, the metrics of its agent, or why they are unknown; without nodes that have no ready agent.
    """

    by: str
    agents: Mapping[str, AgentMetrics | NotServed | Unread] = field(default_factory=dict)
