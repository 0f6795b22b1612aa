"""Parser for YAML documents with sharing rules."""

from __future__ import annotations

from typing import Final

from ruamel.yaml.error import YAMLError

from accelkit.errors import ConfigurationError
from accelkit.placement.sharing.rules import SharingRules, read_rules
from accelkit.yaml import load_yaml

# The size limit of a ConfigMap.
MOST_BYTES: Final = 2**20


def parse_rules(text: bytes) -> SharingRules:
    """Return the sharing rules from the text of a YAML document.

    Raises:
        ConfigurationError: the text does not contain valid rules. The message contains the cause.
    """
    if len(text) > MOST_BYTES:
        raise ConfigurationError(f"the sharing rules are longer than {MOST_BYTES} bytes")
    try:
        document = load_yaml(text)
    except (YAMLError, ValueError, RecursionError) as exc:
        raise ConfigurationError(f"the sharing rules are not valid YAML: {' '.join(str(exc).split())}") from exc
    return read_rules(document)
