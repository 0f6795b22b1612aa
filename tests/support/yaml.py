"""YAML documents as Python objects, without comments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ruamel.yaml import YAML


def parse_yaml(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


def read_yaml(path: Path) -> Any:
    return parse_yaml(path.read_text())


def parse_yaml_documents(text: str) -> list[Any]:
    return list(YAML(typ="safe", pure=True).load_all(text))
