"""Arguments for switching kube-scheduler, which the Ansible module and the specification for the pod contain.

The argument specification of the Ansible action is built from these types. Tests compare it with the module's
documentation and the role's arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from msgspec import inspect

from accelkit.decoding import prepare
from accelkit.errors import ConfigurationError
from accelkit.scheduler.configuration.extender_entry import OWN_RESOURCES

FOLDER: Final = "/etc/kubernetes/accelkit"
BACKUP_DIR: Final = "/var/lib/accelkit/backup"
_T = TypeVar("_T")

Kind = Literal["static_pod", "systemd", "k3s", "rke2", "config_file"]
# Options of Ansible's argument specification in addition to the type of a field.
Path = Annotated[str, msgspec.Meta(extra={"type": "path"})]
PrivateKey = Annotated[str, msgspec.Meta(extra={"no_log": True})]


class LaunchSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings that specify how kube-scheduler is started on the host.

    Attributes:
        kind: the launch kind.
        path: path of the manifest or configuration; empty for the default path.
        unit: the systemd unit; empty for the default unit.
        state_path: for the kind config_file, the file in which the program that runs kube-scheduler reports the state.
    """

    kind: Kind = "static_pod"
    path: str = ""
    unit: str = ""
    state_path: str = ""


class ExtenderSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings for calls to the extender; see ExtenderEntry. The extender's certificate must contain `server_name`."""

    url_prefix: str
    server_name: str = ""
    weight: int = 1
    http_timeout: str = "10s"
    node_cache_capable: bool = True
    ignorable: bool = False
    managed_resources: tuple[str, ...] = OWN_RESOURCES


class CredentialsSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Credentials in PEM format; see TlsCredentials."""

    ca: str
    certificate: str
    key: PrivateKey


class Spec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Desired state of one host. Without `extender`, the host can only be restored."""

    launch: LaunchSpec = LaunchSpec()
    node: str = ""
    kubernetes_version: str = ""
    extender: ExtenderSpec | None = None
    credentials: Annotated[CredentialsSpec | None, msgspec.Meta(extra={"no_log": True})] = None
    dns_policy: Literal["", "ClusterFirstWithHostNet"] = ""
    folder: str = FOLDER
    backup_dir: str = BACKUP_DIR
    timeout: int = 120
    adopt_gcushare: bool = False


class PodImage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Image and host folders of the pod that switches kube-scheduler.

    Attributes:
        image: the accelkit image; empty for the image of the installed node agents.
        pull_secrets: names of Secrets in kube-system.
        host_folders: additional host folders that the pod may read, for example the folder of an existing `--config`.
    """

    image: str = ""
    # Names of Secrets, which Ansible treats as secrets by default.
    pull_secrets: Annotated[tuple[str, ...], msgspec.Meta(extra={"no_log": False})] = ()
    host_folders: tuple[Path, ...] = ()


class Reach(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Arguments that only the Ansible module has: the desired state, and how the module accesses the host."""

    state: Literal["present", "verified", "absent"] = "present"
    pod: PodImage | None = None


prepare(Spec, Reach)


def decode_spec(given: Any) -> Spec:
    """Decode a specification from JSON-like data.

    Raises:
        ConfigurationError: a field is missing, unknown or of the wrong type.
    """
    return _decode(given, Spec)


def decode_module_arguments(given: Mapping[str, Any]) -> tuple[Reach, Spec]:
    """Decode all arguments of the Ansible module.

    Raises:
        ConfigurationError: same conditions as in decode_spec().
    """
    of_reach = {name: value for name, value in given.items() if name in Reach.__struct_fields__}
    return _decode(of_reach, Reach), decode_spec({name: given[name] for name in given.keys() - of_reach.keys()})


def _decode(given: Any, kind: type[_T]) -> _T:
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as exc:
        raise ConfigurationError(f"the specification is invalid: {exc}") from exc


def build_argument_spec() -> dict[str, dict[str, Any]]:
    """Return the Ansible module's argument specification."""
    return {**_options(Reach), **_options(Spec)}


_TYPES: Final[Mapping[type[inspect.Type], str]] = {
    inspect.StrType: "str",
    inspect.IntType: "int",
    inspect.BoolType: "bool",
}


def _options(struct: type[msgspec.Struct]) -> dict[str, dict[str, Any]]:
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType), struct  # noqa: S101 - for the type checker
    return {field.name: _option(field) for field in info.fields}


def _option(field: inspect.Field) -> dict[str, Any]:
    option = _type_of(field.type)
    if field.required:
        return {**option, "required": True}
    if "options" in option and field.default is not None:
        return {**option, "default": {}, "apply_defaults": True}
    if field.default is None:
        return option
    return {**option, "default": list(field.default) if isinstance(field.default, tuple) else field.default}


def _type_of(kind: inspect.Type) -> dict[str, Any]:
    if isinstance(kind, inspect.Metadata):
        return {**_type_of(kind.type), **(kind.extra or {})}
    if isinstance(kind, inspect.UnionType):
        [given] = [each for each in kind.types if not isinstance(each, inspect.NoneType)]
        return _type_of(given)
    if isinstance(kind, inspect.LiteralType):
        return {"type": "str", "choices": list(kind.values)}
    if isinstance(kind, inspect.VarTupleType):
        return {"type": "list", "elements": _type_of(kind.item_type)["type"]}
    if isinstance(kind, inspect.StructType):
        return {"type": "dict", "options": _options(kind.cls)}
    return {"type": _TYPES[type(kind)]}
