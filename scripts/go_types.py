"""Read the structs of Kubernetes' published Go modules: which fields an object has in a file, and of which type."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_ALIAS = re.compile(r"^type (\w+) ([\w.*\[\]]+)$", re.MULTILINE)
_FIELD = re.compile(r'^\s*(?:\w+\s+)?([*\[\]\w.]+)\s+`json:"([^"]*)"')
_IMPORT = re.compile(r'^\s*(?:import )?(\w+)?\s*"([\w./-]+)"$', re.MULTILINE)
_GATE = re.compile(r"^\s*//.*(\+featureGate=|\balpha field\b|\bfield is alpha\b|field can be enabled with)")


@dataclass(frozen=True)
class Package:
    """A Go package.

    Attributes:
        structs: for each its fields, as (JSON tag, Go type).
        aliases: other types by name, as they are defined.
        imports: packages by the name that they have in this one.
        gated: fields behind a feature gate, as (struct, JSON tag).
    """

    structs: dict[str, list[tuple[str, str]]]
    aliases: dict[str, str]
    imports: dict[str, str]
    gated: frozenset[tuple[str, str]]


def download(module: str, version: str) -> Path:
    """Have Go download a module; return its folder."""
    command = ["go", "mod", "download", "-json", f"{module}@{version}"]
    with tempfile.TemporaryDirectory() as nowhere:
        done = subprocess.run(command, cwd=nowhere, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout or "{}")
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {found.get('Error', done.stderr)}")
    return Path(found["Dir"])


def read_package(folder: Path) -> Package | None:
    """Read what the types*.go files of a folder define, None where there are none."""
    sources = [path.read_text() for path in sorted(folder.glob("*types*.go")) if not path.name.endswith("_test.go")]
    if not sources:
        return None
    text = "\n".join(sources)
    structs: dict[str, list[tuple[str, str]]] = {}
    gated: set[tuple[str, str]] = set()
    for name, body in _STRUCT.findall(text):
        structs[name], behind_gate = [], False
        for line in body.splitlines():
            if field := _FIELD.match(line):
                structs[name].append((field[2], field[1]))
                if behind_gate:
                    gated.add((name, field[2]))
            behind_gate = bool(_GATE.match(line)) or (behind_gate and line.strip().startswith("//"))
    imports = {alias or path.rpartition("/")[2]: path for alias, path in _IMPORT.findall(text)}
    return Package(structs, dict(_ALIAS.findall(text)), imports, frozenset(gated))
