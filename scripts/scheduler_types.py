"""Gather the types of kube-scheduler's configuration files, version by version, into tests/data/scheduler-types.json.

Reads clones of kubernetes/kube-scheduler and kubernetes/component-base, which hold these types alone:

    python scripts/scheduler_types.py path/to/kube-scheduler path/to/component-base

What is written are facts of those sources: which fields a struct has in the file, and of which type. The tests validate
against them every configuration that we write.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[1] / "tests" / "data" / "scheduler-types.json"
OLDEST = 16
FORMATS = ("v1alpha1", "v1alpha2", "v1beta1", "v1beta2", "v1beta3", "v1")
CONFIGURATION = "KubeSchedulerConfiguration"
POLICY = "Policy"
SCALARS = {
    "string": "string",
    "bool": "bool",
    "int": "int64",
    "int32": "int32",
    "int64": "int64",
    "float32": "float",
    "float64": "float",
    "[]byte": "bytes",
    "time.Duration": "int64",
    "metav1.Duration": "duration",
    "runtime.RawExtension": "any",
    "runtime.Unknown": "any",
}
TYPE_META = {"kind": "string", "apiVersion": "string"}
STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
ALIAS = re.compile(r"^type (\w+) (string|int32|int64)$", re.MULTILINE)
FIELD = re.compile(r'^\s*(?:\w+\s+)?([*\[\]\w.]+)\s+`json:"([^"]*)"')


@dataclass(frozen=True)
class Package:
    """The structs of one Go package: for each its fields, as (name in the file, Go type)."""

    structs: dict[str, list[tuple[str, str]]]
    aliases: dict[str, str]


class Release:
    """The types of one release."""

    def __init__(self, scheduler: Path, component_base: Path, tag: str) -> None:
        self._scheduler = scheduler
        self._component_base = component_base
        self._tag = tag
        self._packages: dict[str, Package | None] = {}

    def formats(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Yield each format that this release defines, its root struct, and the structs reachable from there."""
        for name in FORMATS:
            package = self._package(name)
            if package and CONFIGURATION in package.structs:
                yield name, CONFIGURATION, self._reachable(name, CONFIGURATION)
        policy = self._package("v1")
        if policy and POLICY in policy.structs:
            yield POLICY, POLICY, self._reachable("v1", POLICY)

    def _reachable(self, package: str, root: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        waiting = [(package, root)]
        while waiting:
            home, name = waiting.pop()
            if name in found:
                continue
            fields: dict[str, str] = {}
            for key, go_type in self._fields(home, name):
                fields[key], struct = self._described(home, go_type)
                if struct:
                    waiting.append(struct)
            found[name] = dict(sorted(fields.items()))
        return dict(sorted(found.items()))

    def _fields(self, home: str, name: str) -> Iterator[tuple[str, str]]:
        """Yield the fields of a struct; those of embedded structs as its own, qualified by their package."""
        package = self._package(home)
        if package is None:
            raise SystemExit(f"{self._tag}: no package {home}")
        for tag, go_type in package.structs[name]:
            key, *options = tag.split(",")
            if key or "inline" not in options:
                yield key, go_type
            elif go_type == "metav1.TypeMeta":
                yield from TYPE_META.items()
            else:
                embedded, struct = self._located(home, go_type)
                yield from self._fields(embedded, struct)

    def _described(self, home: str, go_type: str) -> tuple[str, tuple[str, str] | None]:
        go_type = go_type.removeprefix("*")
        if go_type in SCALARS:
            return SCALARS[go_type], None
        if go_type.startswith("[]"):
            item, struct = self._described(home, go_type[2:])
            return "[]" + item, struct
        package, name = self._located(home, go_type)
        aliases = self._package(package)
        if aliases and name in aliases.aliases:
            return SCALARS[aliases.aliases[name]], None
        return name, (package, name)

    def _located(self, home: str, go_type: str) -> tuple[str, str]:
        qualifier, _, name = go_type.removeprefix("*").rpartition(".")
        if not qualifier:
            return home, name
        return ("component-base" if qualifier.startswith("componentbase") else qualifier), name

    def _package(self, name: str) -> Package | None:
        if name not in self._packages:
            if name == "component-base":
                source = git(self._component_base, "show", f"{self._tag}:config/v1alpha1/types.go")
            else:
                source = git(self._scheduler, "show", f"{self._tag}:config/{name}/types.go")
            self._packages[name] = None if source is None else read_package(source)
        return self._packages[name]


def read_package(source: str) -> Package:
    """Read the structs of a Go source file."""
    structs = {
        name: [(match[2], match[1]) for line in body.splitlines() if (match := FIELD.match(line))]
        for name, body in STRUCT.findall(source)
    }
    return Package(structs, dict(ALIAS.findall(source)))


def git(folder: Path, *arguments: str) -> str | None:
    """Return what git prints, None where it fails."""
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def find_newest_tags(folder: Path) -> dict[int, str]:
    """Return the newest release tag of each minor version."""
    newest: dict[int, tuple[int, str]] = {}
    for tag in (git(folder, "tag") or "").split():
        if match := re.fullmatch(r"v0\.(\d+)\.(\d+)", tag):
            minor, patch = int(match[1]), int(match[2])
            newest[minor] = max(newest.get(minor, (-1, "")), (patch, tag))
    return {minor: tag for minor, (_, tag) in sorted(newest.items()) if minor >= OLDEST}


def main() -> int:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kube_scheduler", type=Path)
    parser.add_argument("component_base", type=Path)
    options = parser.parse_args()
    releases: dict[str, Any] = {}
    types: dict[str, Any] = {}
    for minor, tag in find_newest_tags(options.kube_scheduler).items():
        formats: dict[str, str] = {}
        for name, root, structs in Release(options.kube_scheduler, options.component_base, tag).formats():
            digest = hashlib.sha256(json.dumps([root, structs]).encode()).hexdigest()[:12]
            types[digest] = {"root": root, "structs": structs}
            formats[name] = digest
        releases[f"1.{minor}"] = {"module": f"k8s.io/kube-scheduler {tag}", "formats": formats}
    if not releases:
        parser.error(f"{options.kube_scheduler} is no clone with release tags")
    TARGET.write_text(json.dumps({"releases": releases, "types": dict(sorted(types.items()))}, indent=1) + "\n")
    print(f"{len(releases)} releases, {len(types)} sets of types: {TARGET}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
