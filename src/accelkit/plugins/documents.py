"""Reader for the YAML documents of profiles and dialects from other Python distributions."""

from __future__ import annotations

from importlib import resources
from types import ModuleType
from typing import TypeVar

import msgspec

from accelkit.plugins.catalogue import Plugin
from accelkit.yaml import load_yaml

_Document = TypeVar("_Document")


def read_document(plugin: Plugin, type_: type[_Document]) -> _Document:
    """Load a plug-in, and read its document from `NAME.yaml` in its package or from the result of its callable.

    Raises:
        PluginError: the plug-in cannot be loaded, or its document is invalid.
    """
    found = plugin.load()
    try:
        document = found() if callable(found) else _read_file(found, f"{plugin.name}.yaml")
        if isinstance(document, str):
            document = load_yaml(document)
        fields = msgspec.convert(document, dict[str, object])
        return msgspec.convert({**fields, "name": plugin.name}, type_)
    except msgspec.ValidationError as exc:
        raise plugin.build_error(f"is invalid: {exc}") from exc
    except (Exception, SystemExit) as exc:
        raise plugin.build_error(f"cannot be read: {type(exc).__name__}: {exc}") from exc


def _read_file(package: object, name: str) -> str:
    if not isinstance(package, ModuleType):
        raise TypeError("its entry point does not refer to a package or a callable")
    return (resources.files(package) / name).read_text(encoding="utf-8")
