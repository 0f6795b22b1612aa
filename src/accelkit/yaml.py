"""Loads YAML documents: YAML 1.2, plain values only, duplicate keys refused."""

from __future__ import annotations

from typing import Any

from ruamel.yaml import YAML


def load_yaml(text: str | bytes) -> Any:
    """Return the one document of a text.

    Raises:
        YAMLError: the text is not YAML, or has several documents.
    """
    return YAML(typ="safe", pure=True).load(text)


def load_yaml_documents(text: str | bytes) -> list[Any]:
    """Return all documents of a text.

    Raises:
        YAMLError: the text is not YAML.
    """
    return list(YAML(typ="safe", pure=True).load_all(text))
