"""Gather the types of kube-scheduler's configuration files, version by version, into tests/data/scheduler-types.json.

Reads the Go modules k8s.io/kube-scheduler and k8s.io/component-base, which Go downloads where it does not have them:

    python scripts/scheduler_types.py

A release that the file has already is not read again. What is written are facts of those modules: which fields a struct
has in the file, and of which type. The tests validate against them every configuration that we write.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from go_types import Package, download, read_package

TARGET = Path(__file__).parents[1] / "tests" / "data" / "scheduler-types.json"
# The release of each minor version, from 1.21 on, that the types are read from.
PATCHES = (14, 17, 17, 17, 16, 15, 16, 15, 15, 14, 14, 13, 13, 10, 7, 3, 2)
RELEASES = {minor: f"v0.{minor}.{patch}" for minor, patch in enumerate(PATCHES, 21)}
FORMATS = ("v1beta1", "v1beta2", "v1beta3", "v1")
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


class Release:
    """The types of one release."""

    def __init__(self, version: str) -> None:
        self._version = version
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
            raise SystemExit(f"{self._version}: no package {home}")
        for tag, go_type in package.structs[name]:
            key = tag.partition(",")[0]
            if key:
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
            base = name == "component-base"
            module = download("k8s.io/component-base" if base else "k8s.io/kube-scheduler", self._version)
            self._packages[name] = read_package(module / "config" / ("v1alpha1" if base else name))
        return self._packages[name]


def main() -> int:
    """Write the file."""
    known = json.loads(TARGET.read_text())
    releases: dict[str, Any] = {}
    types: dict[str, Any] = {}
    for minor, version in RELEASES.items():
        release = known["releases"].get(f"1.{minor}", {})
        if release.get("module") == f"k8s.io/kube-scheduler {version}":
            types.update({digest: known["types"][digest] for digest in release["formats"].values()})
        else:
            release = {"module": f"k8s.io/kube-scheduler {version}", "formats": {}}
            for name, root, structs in Release(version).formats():
                digest = hashlib.sha256(json.dumps([root, structs]).encode()).hexdigest()[:12]
                types[digest] = {"root": root, "structs": structs}
                release["formats"][name] = digest
        releases[f"1.{minor}"] = release
    TARGET.write_text(json.dumps({"releases": releases, "types": dict(sorted(types.items()))}, indent=1) + "\n")
    print(f"{len(releases)} releases, {len(types)} sets of types: {TARGET}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
