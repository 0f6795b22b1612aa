"""Lookup of policies by name. Policies are defined by accelkit and by other Python distributions."""

from __future__ import annotations

from typing import Final

from accelkit.model.card import Card
from accelkit.model.request import ContainerRequest, Kind
from accelkit.placement.card_state import build_empty_states
from accelkit.placement.charges import CardTally
from accelkit.placement.plugged_policies import PluggedPolicy, PolicyPlugin
from accelkit.placement.policies import MAX_SCORE, AnyPolicy, Policy
from accelkit.plugins.catalogue import find_plugin, list_plugin_names
from accelkit.plugins.interface import POLICIES

_OWN: Final = tuple(each.value for each in Policy)
# Each policy ranks this example when it is loaded, so that invalid results are reported at startup.
_NODE: Final = build_empty_states(
    [Card("a", "example", "example", 2**34, index=0), Card("b", "example", "unknown memory", None, index=1)]
)
_REQUEST: Final = ContainerRequest("main", Kind.APP, 1, 2**30)


def list_policy_names() -> list[str]:
    """Return the names of accelkit's policies, followed by the names of plug-in policies. Plug-ins are not loaded."""
    return list(dict.fromkeys((*_OWN, *list_plugin_names(POLICIES))))


def load_policy(name: str) -> AnyPolicy:
    """Return the policy with this name, which must be a name from `list_policy_names`.

    Raises:
        PluginError: the policy is from another Python distribution and cannot be used.
    """
    plugin = find_plugin(POLICIES, name, _OWN)
    if plugin is None:
        return Policy(name)
    found = plugin.load()
    if not isinstance(found, PolicyPlugin):
        raise plugin.build_error(f"is invalid: {plugin.reference} must define rank_card and score_node")
    policy = PluggedPolicy(plugin.name, found, plugin.origin)
    policy.order_cards(range(len(_NODE)), _NODE, [CardTally() for _ in _NODE], _REQUEST)
    policy.score_node(_NODE, MAX_SCORE)
    return policy
