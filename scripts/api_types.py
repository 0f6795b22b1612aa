"""Gather which API objects each Kubernetes version serves, with their fields, into tests/data/api-types.json.

Reads the Go modules k8s.io/api and k8s.io/apimachinery, which Go downloads where it does not have them:

    python scripts/api_types.py

Only stable group versions are gathered, which an API server serves from the release on whose module defines them; a
field that stands behind a feature gate in a release is not counted there. The tests read each manifest that we apply
against this, strictly, for every version that we support.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from go_types import Package, download, read_package

TARGET = Path(__file__).parents[1] / "tests" / "data" / "api-types.json"
# The release of each minor version, from 1.21 on, that the types are read from.
PATCHES = (1, 5, 16, 3, 9, 9, 4, 3, 15, 14, 14, 13, 13, 13, 10, 6, 2)
RELEASES = {minor: f"v0.{minor}.{patch}" for minor, patch in enumerate(PATCHES, 21)}
KINDS = {
    "v1": "Binding ConfigMap Endpoints Event Namespace Pod Secret Service ServiceAccount",
    "admissionregistration.k8s.io/v1": (
        "MutatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding"
    ),
    "apps/v1": "DaemonSet Deployment",
    "authentication.k8s.io/v1": "TokenRequest TokenReview",
    "authorization.k8s.io/v1": "LocalSubjectAccessReview SelfSubjectAccessReview",
    "batch/v1": "CronJob",
    "coordination.k8s.io/v1": "Lease",
    "discovery.k8s.io/v1": "EndpointSlice",
    "networking.k8s.io/v1": "NetworkPolicy",
    "policy/v1": "PodDisruptionBudget",
    "rbac.authorization.k8s.io/v1": "ClusterRole ClusterRoleBinding Role RoleBinding",
}
SCALARS = {
    **{name: name for name in ("string", "bool", "int32", "int64")},
    "int": "int64",
    "float64": "float",
    "[]byte": "bytes",
    "k8s.io/apimachinery/pkg/api/resource.Quantity": "quantity",
    "k8s.io/apimachinery/pkg/apis/meta/v1.FieldsV1": "any",
    "k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime": "string",
    "k8s.io/apimachinery/pkg/apis/meta/v1.Time": "string",
    "k8s.io/apimachinery/pkg/runtime.RawExtension": "any",
    "k8s.io/apimachinery/pkg/types.NodeName": "string",
    "k8s.io/apimachinery/pkg/types.UID": "string",
    "k8s.io/apimachinery/pkg/util/intstr.IntOrString": "intOrString",
}
TYPE_META = "k8s.io/apimachinery/pkg/apis/meta/v1.TypeMeta"


class Release:
    """The types of one release. A type is named by its package and its name, with a dot between."""

    def __init__(self, version: str) -> None:
        self._version = version

    def find_structs(self) -> dict[str, dict[str, str]]:
        """Return all structs that are reachable from our kinds: the type of each field."""
        found: dict[str, dict[str, str]] = {}
        waiting = [name for name in map(find_struct, list_kinds()) if self._is_defined(name)]
        while waiting:
            name = waiting.pop()
            if name not in found:
                found[name] = {}
                for key, described in self._fields(name):
                    found[name][key] = described
                    if self._is_defined(described.lstrip("[]{}")):
                        waiting.append(described.lstrip("[]{}"))
        return found

    def _is_defined(self, name: str) -> bool:
        path, _, struct = name.rpartition(".")
        package = self._package(path) if path else None
        return package is not None and struct in package.structs

    def _fields(self, name: str) -> Iterator[tuple[str, str]]:
        path, _, struct = name.rpartition(".")
        package = self._package(path)
        if package is None or struct not in package.structs:
            sys.exit(f"{self._version}: no struct {name}")
        if name == TYPE_META:
            yield from {"kind": "string", "apiVersion": "string"}.items()
            return
        for tag, go_type in package.structs[struct]:
            key = tag.partition(",")[0]
            if (struct, tag) in package.gated or key == "-":
                continue
            if key:
                yield key, self._describe(path, go_type)
            else:
                yield from self._fields(self._qualify(path, go_type))

    def _describe(self, path: str, go_type: str) -> str:
        go_type = go_type.removeprefix("*")
        if go_type in SCALARS:
            return SCALARS[go_type]
        if go_type.startswith("[]"):
            return "[]" + self._describe(path, go_type[2:])
        if go_type.startswith("map["):
            return "{}" + self._describe(path, go_type.partition("]")[2])
        name = self._qualify(path, go_type)
        if name in SCALARS:
            return SCALARS[name]
        home, _, own = name.rpartition(".")
        package = self._package(home)
        if package is not None and own in package.aliases:
            return self._describe(home, package.aliases[own])
        return name

    def _qualify(self, path: str, go_type: str) -> str:
        qualifier, _, name = go_type.removeprefix("*").rpartition(".")
        if not qualifier:
            return f"{path}.{name}"
        package = self._package(path)
        return f"{package.imports[qualifier] if package else qualifier}.{name}"

    @functools.cache  # noqa: B019 - a release lives as long as the program
    def _package(self, path: str) -> Package | None:
        module = "/".join(path.split("/")[:2])
        if module not in ("k8s.io/api", "k8s.io/apimachinery"):
            return None
        return read_package(download(module, self._version) / path.removeprefix(module).lstrip("/"))


def list_kinds() -> Iterator[str]:
    """Yield each kind as `apps/v1 Deployment`."""
    for group_version, kinds in KINDS.items():
        yield from (f"{group_version} {kind}" for kind in kinds.split())


def find_struct(kind: str) -> str:
    """Return the struct of a kind."""
    group_version, name = kind.split()
    group, _, version = group_version.rpartition("/")
    return f"k8s.io/api/{group.partition('.')[0] or 'core'}/{version}.{name}"


def shorten(name: str) -> str:
    """Return the name of a type without what all of them have in common."""
    return name.replace("k8s.io/apimachinery/pkg/apis/", "").replace("k8s.io/api/", "")


def collect() -> dict[str, Any]:
    """Return for each kind and each type of each field the releases that have it, as `21-` or `21-24`."""
    kinds: dict[str, list[int]] = {}
    fields: dict[str, dict[str, dict[str, list[int]]]] = {}
    for minor, version in RELEASES.items():
        structs = Release(version).find_structs()
        for kind in list_kinds():
            if find_struct(kind) in structs:
                kinds.setdefault(kind, []).append(minor)
        for name, described in structs.items():
            for key, kind_of_value in described.items():
                of_field = fields.setdefault(shorten(name), {}).setdefault(key, {})
                of_field.setdefault(shorten(kind_of_value), []).append(minor)
    return {
        "releases": {f"1.{minor}": f"k8s.io/api {version}" for minor, version in RELEASES.items()},
        "kinds": {kind: [shorten(find_struct(kind)), span(minors)] for kind, minors in sorted(kinds.items())},
        "structs": {
            name: {
                key: "|".join(f"{of} {span(minors)}" for of, minors in types.items())
                for key, types in sorted(each.items())
            }
            for name, each in sorted(fields.items())
        },
    }


def span(minors: list[int]) -> str:
    """Return which releases these are: `21-` for all from 1.21 on. A removed field counts from its return."""
    last = minors[-1]
    first = next(minor for minor in range(last, 0, -1) if minor - 1 not in minors)
    return f"{first}-" if last == max(RELEASES) else f"{first}-{last}"


def main() -> int:
    """Write the file."""
    found = collect()
    # A line for each kind and each struct, so that differences can be read.
    parts = [
        f"{json.dumps(part)}: {{\n" + ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in of.items()) + "\n}"
        for part, of in found.items()
    ]
    TARGET.write_text("{\n" + ",\n".join(parts) + "\n}\n")
    print(f"{len(found['releases'])} releases, {len(found['kinds'])} kinds, {len(found['structs'])} structs: {TARGET}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
