"""Loader for YAML documents. It supports YAML 1.2 with only plain values, and rejects duplicate keys."""

from __future__ import annotations

from typing import Any

from ruamel.yaml import YAML


def load_yaml(text: str | bytes) -> Any:
    """Return the only document in a text.

    Raises:
        YAMLError: the text is not YAML, or contains several documents.
    """
    return YAML(typ="safe", pure=True).load(text)


def load_yaml_documents(text: str | bytes) -> list[Any]:
    """Return all documents in a text.

    Raises:
        YAMLError: the text is not YAML.
    """
    return list(YAML(typ="safe", pure=True).load_all(text))
