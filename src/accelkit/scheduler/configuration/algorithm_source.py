"""The Policy inside a v1alpha1 configuration, the only way to an extender where such a file is given with --config."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from accelkit.errors import ConfigurationError
from accelkit.scheduler.configuration.document import Document
from accelkit.scheduler.configuration.extender_entry import Extender
from accelkit.scheduler.configuration.policy import add_extender_to_policy

_KEY: Final = "algorithmSource"
_DEFAULT_PROVIDER: Final = "DefaultProvider"


@dataclass(frozen=True)
class MergedSource:
    """A Policy with our entry, and the configuration that names it."""

    policy: str
    problems: tuple[str, ...]
    _text: str

    def render_configuration(self, policy_path: str) -> str:
        """Return the configuration with the Policy at `policy_path`."""
        document = _document(self._text)
        document.root[_KEY] = {"policy": {"file": {"path": policy_path}}}
        return document.render()


def merge_algorithm_source(text: str, extender: Extender, policy_text: Callable[[dict[str, Any]], str]) -> MergedSource:
    """Merge our entry into the Policy that a v1alpha1 configuration names, or into a new one.

    Raises:
        ConfigurationError: it cannot be read, or another extender binds.
    """
    source = _document(text).root.get(_KEY) or {}
    if not isinstance(source, dict):
        raise ConfigurationError(f"`{_KEY}` of the scheduler configuration is no mapping")
    present, provider = source.get("policy"), source.get("provider")
    problems: tuple[str, ...] = ()
    if not present and provider not in {None, "", _DEFAULT_PROVIDER}:
        problem = (
            f"the algorithm provider {provider} makes way for a Policy, which starts from {_DEFAULT_PROVIDER}; "
            "name its predicates and priorities in a Policy of your own to keep them"
        )
        problems = (problem,)
    policy = add_extender_to_policy(policy_text(present) if present else None, extender)
    return MergedSource(policy, problems, text)


def _document(text: str) -> Document:
    return Document(text, "the scheduler configuration")
