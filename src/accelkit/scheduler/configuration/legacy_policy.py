"""accelkit's entry in a Policy, which configures the extenders of kube-scheduler up to Kubernetes 1.22.

An entry has the same fields as in a KubeSchedulerConfiguration, except that TLS is set by `enableHttps`, and that
`httpTimeout` is in nanoseconds. kube-scheduler ignores the case of the keys, in both JSON and YAML.
"""

from __future__ import annotations

import json
from typing import Any, Final

from ruamel.yaml.error import YAMLError

from accelkit.errors import ConfigurationError
from accelkit.scheduler.configuration.extender_entry import ExtenderEntry, check_binds_alone, is_ours
from accelkit.yaml import load_yaml

_KIND: Final = "Policy"


def add_extender_to_policy(text: str, extender: ExtenderEntry) -> str:
    """Return a Policy as JSON with accelkit's entry, in addition to the entries in `text`.

    Raises:
        ConfigurationError: `text` is not a Policy, or another extender in it binds.
    """
    policy = _read(text)
    key = next((each for each in policy if each.lower() == "extenders"), "extenders")
    entries = policy.get(key) or []
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ConfigurationError("`extenders` of the scheduler Policy is not a list of mappings")
    others = [entry for entry in entries if not is_ours(_folded(entry), extender.url_prefix)]
    check_binds_alone(map(_folded, others))
    return _written({**policy, key: [*others, extender.build_legacy_entry()]})


def _read(text: str) -> dict[str, Any]:
    try:
        policy = load_yaml(text)
    except YAMLError as exc:
        raise ConfigurationError(
            f"the scheduler Policy is neither JSON nor YAML: {' '.join(str(exc).split())}"
        ) from exc
    if not isinstance(policy, dict) or next((policy[k] for k in policy if str(k).lower() == "kind"), _KIND) != _KIND:
        raise ConfigurationError("the file of the policy options does not contain a Policy")
    return policy


def _written(policy: dict[str, Any]) -> str:
    return json.dumps(policy, indent=2, ensure_ascii=False) + "\n"


def _folded(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry whose essential keys have their usual case."""
    usual = {name.lower(): name for name in ("urlPrefix", "bindVerb", "managedResources")}
    return {usual.get(str(key).lower(), key): value for key, value in entry.items()}
