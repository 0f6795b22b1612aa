"""The plug-in interface: the entry point groups and the version of the interface.

The name of an entry point is the name of the plug-in. The required object depends on the group:

`accelkit.profiles`, `accelkit.dialects`
    A package with the file `NAME.yaml`, or a callable that returns the document as a mapping or as YAML.
`accelkit.policies`
    A module or an object that implements `accelkit.placement.plugged_policies.PolicyPlugin`.
`accelkit.memory_sources`
    A subclass of `accelkit.node.discovery.card_sources.CardSource`.

The entry point's module or package must set the variable `ACCELKIT_INTERFACE` to the version of this interface.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

PROFILES: Final = "accelkit.profiles"
DIALECTS: Final = "accelkit.dialects"
POLICIES: Final = "accelkit.policies"
MEMORY_SOURCES: Final = "accelkit.memory_sources"

# The term for a plug-in in messages, by group.
KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {PROFILES: "profile", DIALECTS: "dialect", POLICIES: "policy", MEMORY_SOURCES: "memory source"}
)

INTERFACE: Final = 1
VARIABLE: Final = "ACCELKIT_INTERFACE"
