"""The CRDs say what the structs read and write, field by field and type by type."""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.yaml import read_yaml

from accelkit.gkm import names, objects
from accelkit.kernelcache.signatures.policy_objects import parse_policies
from accelkit.kernelcache.signatures.signer_policy.spec import PolicySpec
from accelkit.kube.paths import build_collection_path

FOLDER = Path(__file__).parents[4] / "roles" / "kernel_cache" / "files" / "crds"
Json = Mapping[str, Any]
# What structs leave to the API server, or to a pod's own types.
OPAQUE = {"tolerations", "affinity"}


def read(plural: str) -> Json:
    return read_yaml(FOLDER / f"{plural}.yaml")


def schema(plural: str) -> Json:
    (version,) = read(plural)["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]


KINDS = [
    ("gkmcaches", "GKMCache", "Namespaced", names.CACHES),
    ("clustergkmcaches", "ClusterGKMCache", "Cluster", names.CLUSTER_CACHES),
    ("gkmcachenodes", "GKMCacheNode", "Namespaced", names.CACHE_NODES),
    ("clustergkmcachenodes", "ClusterGKMCacheNode", "Cluster", names.CLUSTER_CACHE_NODES),
    ("signerpolicies", "SignerPolicy", "Cluster", names.SIGNER_POLICIES),
]


def test_each_kind_has_exactly_one_crd_file():
    assert {each.stem for each in FOLDER.iterdir()} == {each[0] for each in KINDS}


@pytest.mark.parametrize(("plural", "kind", "scope", "path"), KINDS)
def test_crd_names_match_the_api_paths_of_clients(plural, kind, scope, path):
    crd = read(plural)
    spec = crd["spec"]
    (version,) = spec["versions"]
    assert crd["metadata"]["name"] == f"{spec['names']['plural']}.{spec['group']}"
    assert (spec["names"]["plural"], spec["names"]["kind"], spec["scope"]) == (plural, kind, scope)
    assert build_collection_path(f"{spec['group']}/{version['name']}", plural) == path


def differences(type_: Any, there: Json, where: str) -> Iterator[str]:
    """What a type and a schema do not have in common; each in words."""
    type_, optional = strip(type_)
    # Policies keep a null so that it is refused.
    if there.get("nullable", False) and optional == where.startswith("policy"):
        yield f"{where} may be null in one of both alone"
    origin, arguments = typing.get_origin(type_), typing.get_args(type_)
    if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
        if there["type"] != "object":
            yield f"{where} is an object"
            return
        yield from field_differences(type_, there, where)
    elif origin in (list, tuple):
        if there["type"] != "array":
            yield f"{where} is a list"
        elif where.rpartition(".")[2] not in OPAQUE:
            yield from differences(arguments[0], there["items"], f"{where}[]")
    elif origin is dict:
        if there["type"] != "object":
            yield f"{where} is a map"
        elif where.rpartition(".")[2] not in OPAQUE:
            yield from differences(arguments[1], there["additionalProperties"], f"{where}{{}}")
    else:
        yield from scalar_differences(type_, there, where)


def strip(type_: Any) -> tuple[Any, bool]:
    optional = isinstance(type_, types.UnionType)
    if optional:
        (type_,) = (each for each in typing.get_args(type_) if each is not type(None))
    if typing.get_origin(type_) is typing.Annotated:
        type_ = typing.get_args(type_)[0]
    return type_, optional


def placement_differences(there: Json, where: str) -> Iterator[str]:
    # It is kept as it came; this is what is read of it.
    for field in msgspec.structs.fields(objects.PodPlacement):
        name = field.encode_name
        yield from differences(field.type, there["properties"]["spec"]["properties"][name], f"{where}.{name}")


def field_differences(struct: type, there: Json, where: str) -> Iterator[str]:
    if struct is objects.PodTemplate:
        yield from placement_differences(there, where)
        return
    fields = {each.encode_name: each for each in msgspec.structs.fields(struct)}
    if set(fields) != set(there["properties"]):
        yield f"{where} has in one of both alone: {sorted(set(fields) ^ set(there['properties']))}"
    for name, field in fields.items():
        property_ = there["properties"].get(name)
        if property_ is None:
            continue
        yield from differences(field.type, property_, f"{where}.{name}")
        default = property_.get("default", msgspec.UNSET)
        meant = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
        if default is not msgspec.UNSET and default != meant:
            yield f"{where}.{name} is {default!r} by default, and {meant!r} in the struct"


def scalar_differences(type_: Any, there: Json, where: str) -> Iterator[str]:
    if typing.get_origin(type_) is typing.Literal:
        type_, choices = str, set(typing.get_args(type_))
    elif isinstance(type_, type) and issubclass(type_, enum.StrEnum):
        type_, choices = str, {each.value for each in type_}
    else:
        choices = None
    wanted = {str: "string", int: "integer", bool: "boolean"}.get(type_, str(type_))
    if there["type"] != wanted:
        yield f"{where} is {wanted} in the struct and {there['type']} in the schema"
    if choices is not None and choices != set(there.get("enum", ())):
        yield f"{where} has {choices} in the struct and {there.get('enum')} in the schema"


@pytest.mark.parametrize(
    ("plural", "part", "struct"),
    [
        ("gkmcaches", "spec", objects.CacheSpec),
        ("gkmcaches", "status", objects.CacheStatus),
        ("clustergkmcaches", "spec", objects.CacheSpec),
        ("clustergkmcaches", "status", objects.CacheStatus),
        ("gkmcachenodes", "status", objects.NodeStatus),
        ("clustergkmcachenodes", "status", objects.NodeStatus),
        ("signerpolicies", "spec", PolicySpec),
    ],
)
def test_schema_matches_fields_types_and_defaults_of_its_struct(plural, part, struct):
    where = "policy" if struct is PolicySpec else part
    assert list(differences(struct, schema(plural)["properties"][part], where)) == []


def test_schema_comparison_finds_differences():
    there = {
        "type": "object",
        "properties": {"image": {"type": "integer"}, "delivery": {"type": "string", "enum": ["auto"], "default": "x"}},
    }
    found = " ".join(differences(objects.CacheSpec, there, "spec"))
    for each in ("in one of both alone", "spec.image is string", "spec.delivery has", "by default"):
        assert each in found


@pytest.mark.parametrize(
    ("one", "other"), [("gkmcaches", "clustergkmcaches"), ("gkmcachenodes", "clustergkmcachenodes")]
)
def test_both_scopes_have_the_same_schema_except_namespaces_and_descriptions(one, other):
    def stripped(node: Any) -> Any:
        if isinstance(node, dict):
            return {k: stripped(v) for k, v in node.items() if k not in ("description", "workloadNamespaces")}
        return [stripped(each) for each in node] if isinstance(node, list) else node

    assert stripped(schema(one)) == stripped(schema(other))


@pytest.mark.parametrize("plural", [each[0] for each in KINDS])
def test_schema_is_fully_typed_and_spec_fields_are_bounded(plural):
    for where, node in walk(schema(plural), ""):
        assert "x-kubernetes-preserve-unknown-fields" not in node, where
        assert node["type"] in ("object", "array", "string", "integer", "boolean"), where
        if ".spec" in where:
            bounds = {"string": ("maxLength", "enum", "format"), "array": ("maxItems",)}.get(node["type"], ())
            assert not bounds or set(bounds) & set(node), where
            assert "additionalProperties" not in node or "maxProperties" in node, where


def walk(node: Json, where: str) -> Iterator[tuple[str, Json]]:
    yield where, node
    for name, each in node.get("properties", {}).items():
        if where or name not in ("apiVersion", "kind", "metadata"):
            yield from walk(each, f"{where}.{name}")
    for name in ("items", "additionalProperties"):
        if name in node:
            yield from walk(node[name], f"{where}[]")


def test_null_fields_of_policy_are_preserved_and_refused():
    """Null is dropped where it may not be, and without these more would be trusted."""
    spec = schema("signerpolicies")["properties"]["spec"]["properties"]
    signer = spec["signers"]["items"]["properties"]
    kept = [spec["namespaces"], signer["annotations"], signer["annotations"]["additionalProperties"]]
    texts = ("issuer", "issuerPattern", "subject", "subjectPattern")
    kept += [signer[kind]["properties"][text] for kind in ("keyless", "ca") for text in texts]
    assert all(each["nullable"] for each in kept)
    material = {"ca": {"data": "PEM", "subject": None}}
    assert parse_policies([("acme", {"images": ["**"], "signers": [material]})]).broken
