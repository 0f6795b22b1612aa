"""Functions that add accelkit's entry to the `extenders` of a KubeSchedulerConfiguration, and remove it.

`Document` changes only the lines of that entry. All other bytes of the configuration remain unchanged.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, Final

from ruamel.yaml import YAML

from accelkit.errors import ConfigurationError
from accelkit.scheduler.configuration.document import Document
from accelkit.scheduler.configuration.extender_entry import OWN_RESOURCES, ExtenderEntry, check_binds_alone, is_ours

__all__ = [
    "OWN_RESOURCES",
    "ExtenderEntry",
    "add_extender",
    "build_configuration",
    "has_extender",
    "read_api_version",
    "remove_extender",
]

KIND: Final = "KubeSchedulerConfiguration"
GROUP: Final = "kubescheduler.config.k8s.io/"
_KEY: Final = "extenders"


def build_configuration(api_version: str, fields: dict[str, Any], extender: ExtenderEntry) -> str:
    """Return a new configuration with the given fields and accelkit's entry.

    Args:
        api_version: the version of the configuration without the group.
        fields: fields of a KubeSchedulerConfiguration of this version.
        extender: the entry.
    """
    yaml = YAML()
    yaml.width = 4096
    stream = io.StringIO()
    document = {"apiVersion": GROUP + api_version, "kind": KIND, **fields, _KEY: [extender.build_entry()]}
    yaml.dump(document, stream)
    return stream.getvalue()


def add_extender(text: str, extender: ExtenderEntry) -> str:
    """Return the configuration with accelkit's entry added or updated; unchanged if the entry is already correct.

    Raises:
        ConfigurationError: the text is not a KubeSchedulerConfiguration, or another extender already binds.
    """
    document = _read(text)
    entries = _entries(document)
    ours = _ours(entries, extender.url_prefix)
    others = [entry for index, entry in enumerate(entries) if index not in ours]
    check_binds_alone(others)
    others.insert(ours[0] if ours else len(entries), extender.build_entry())
    document.root[_KEY] = others
    return document.render()


def remove_extender(text: str, url_prefix: str | None = None) -> str:
    """Return the configuration without accelkit's entry, which is identified by its resources or by `url_prefix`.

    Raises:
        ConfigurationError: the text is not a KubeSchedulerConfiguration.
    """
    document = _read(text)
    entries = _entries(document)
    ours = _ours(entries, url_prefix)
    if not ours:
        return text
    document.root[_KEY] = [entry for index, entry in enumerate(entries) if index not in ours]
    if not document.root[_KEY]:
        del document.root[_KEY]
    return document.render()


def read_api_version(text: str) -> str:
    """Return the apiVersion of a configuration.

    Raises:
        ConfigurationError: the text is not a KubeSchedulerConfiguration.
    """
    return str(_read(text).root["apiVersion"])


def has_extender(text: str, url_prefix: str | None = None) -> bool:
    """Return whether the configuration contains accelkit's entry.

    Raises:
        ConfigurationError: the text is not a KubeSchedulerConfiguration.
    """
    return bool(_ours(_entries(_read(text)), url_prefix))


def _read(text: str) -> Document:
    document = Document(text, "the scheduler configuration")
    if document.root.get("kind") != KIND:
        raise ConfigurationError(
            f"the file does not contain a {KIND}", next_step="specify the path in kube-scheduler's option --config"
        )
    api_version = document.root.get("apiVersion")
    if not str(api_version or "").startswith(GROUP):
        raise ConfigurationError(f"apiVersion {api_version!r} is not one of {GROUP}*")
    return document


def _entries(document: Document) -> list[dict[str, Any]]:
    entries = document.root.get(_KEY) or []
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ConfigurationError("`extenders` of the scheduler configuration is not a list of mappings")
    return entries


def _ours(entries: Sequence[dict[str, Any]], url_prefix: str | None) -> list[int]:
    return [index for index, entry in enumerate(entries) if is_ours(entry, url_prefix)]
