"""Monitoring of a cluster: the object that configures scraping, and the metrics that each agent serves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from accelkit.enablement.facts.unread import Unread


@dataclass(frozen=True, slots=True)
class AgentMetrics:
    """The metrics that an agent serves: the IDs of the cards that have series, and the number of series."""

    cards: frozenset[str]
    series: int


@dataclass(frozen=True, slots=True)
class NotServed:
    """An agent that does not serve metrics, because the metrics port is 0."""


@dataclass(frozen=True, slots=True)
class Monitoring:
    """The monitoring configuration of a cluster that scrapes accelkit's Services.

    Attributes:
        by: the object that configures scraping, as part of a sentence.
        agents: the metrics of each node's agent, or the reason why they are unknown; nodes without a ready agent are
            omitted.
    """

    by: str
    agents: Mapping[str, AgentMetrics | NotServed | Unread] = field(default_factory=dict)
