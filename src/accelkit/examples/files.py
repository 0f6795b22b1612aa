"""Example files: one YAML file for each example. The name of a file contains the options of the example."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.representer import RoundTripRepresenter

from accelkit.errors import ExampleError
from accelkit.examples.example import ALL_EXAMPLES, Example
from accelkit.examples.objects import Object

# kubectl reads YAML 1.1. In YAML 1.1, these words and many values that start with a digit are not strings.
_PLAIN: Final = re.compile(r"(?!(?:true|false|yes|no|on|off|y|n|null)$)[a-z/][\w./:-]*", re.IGNORECASE)


class _Representer(RoundTripRepresenter):
    """Representer that writes strings with the same meaning in YAML 1.1 and 1.2, and does not use aliases."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - ruamel.yaml's signature
        return True

    def represent_str(self, data: str) -> ScalarNode:
        style = None if _PLAIN.fullmatch(data) else '"'
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_Representer.add_representer(str, _Representer.represent_str)


def render(objects: Sequence[Object]) -> str:
    """Return objects as a sequence of YAML documents in the same order. The output is deterministic."""
    yaml = YAML()
    yaml.Representer = _Representer
    yaml.default_flow_style = False
    yaml.explicit_start = True
    yaml.width = 4096
    stream = io.StringIO()
    yaml.dump_all(objects, stream)
    return stream.getvalue()


def write_example(text: str, example: Example, folder: Path) -> Path:
    """Write the text of an example to a file; return the path of the file. The folder is created if necessary.

    Raises:
        ExampleError: the file cannot be written.
    """
    path = folder / example.file_name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    except OSError as exc:
        raise ExampleError(
            f"cannot write {path}: {exc.strerror or exc}", next_step="set another folder with --output"
        ) from exc
    return path


def find_example_files(folder: Path, examples: Iterable[Example] = ALL_EXAMPLES) -> list[Path]:
    """Return the sorted files in a folder that have the name of an example; empty if the folder does not exist."""
    return sorted(path for path in (folder / each.file_name for each in examples) if path.is_file())


def clean(folder: Path, examples: Iterable[Example] = ALL_EXAMPLES) -> list[Path]:
    """Delete only the example files in a folder; return the paths of the deleted files.

    Raises:
        ExampleError: a file cannot be deleted.
    """
    files = find_example_files(folder, examples)
    for path in files:
        try:
            path.unlink(missing_ok=True)
        except OSError as exc:
            raise ExampleError(f"cannot delete {path}: {exc.strerror or exc}") from exc
    return files
