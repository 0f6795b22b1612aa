"""The fields of a pod's specification that determine whether OpenShift admits the pod.

If a container does not set a field, it inherits the value from the pod.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from accelkit.errors import ConfigurationError

# The second key of a volume is the type of the volume. OpenShift uses a different name for this type.
_VOLUME_KINDS: Final = {"vsphereVolume": "vsphere"}
_PROFILES: Final = {"RuntimeDefault": "runtime/default", "Unconfined": "unconfined"}


class SELinuxOptions(msgspec.Struct, frozen=True, omit_defaults=True):
    """An SELinux context; the container runtime chooses the values of empty fields."""

    user: str = ""
    role: str = ""
    type: str = ""
    level: str = ""


class _Seccomp(msgspec.Struct, frozen=True, rename="camel"):
    type: str
    localhost_profile: str = ""

    @property
    def name(self) -> str:
        """The name of the profile, as used in constraints."""
        return _PROFILES.get(self.type) or f"localhost/{self.localhost_profile}"


class _Capabilities(msgspec.Struct, frozen=True):
    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


class _Sysctl(msgspec.Struct, frozen=True):
    name: str


class _PodContext(msgspec.Struct, frozen=True, rename="camel"):
    run_as_user: int | None = None
    run_as_non_root: bool | None = None
    fs_group: int | None = None
    supplemental_groups: tuple[int, ...] = ()
    seccomp_profile: _Seccomp | None = None
    se_linux_options: SELinuxOptions | None = None
    sysctls: tuple[_Sysctl, ...] = ()


class _ContainerContext(msgspec.Struct, frozen=True, rename="camel"):
    privileged: bool = False
    allow_privilege_escalation: bool | None = None
    read_only_root_filesystem: bool = False
    run_as_user: int | None = None
    run_as_non_root: bool | None = None
    capabilities: _Capabilities = _Capabilities()
    seccomp_profile: _Seccomp | None = None
    se_linux_options: SELinuxOptions | None = None


class _Port(msgspec.Struct, frozen=True, rename="camel"):
    host_port: int = 0


class _Container(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    ports: tuple[_Port, ...] = ()
    security_context: _ContainerContext = _ContainerContext()


class PodSecurity(msgspec.Struct, frozen=True, rename="camel"):
    """A pod specification, with the fields that constraints use."""

    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] = ()
    host_network: bool = False
    host_pid: bool = msgspec.field(name="hostPID", default=False)
    host_ipc: bool = msgspec.field(name="hostIPC", default=False)
    automount_service_account_token: bool = True
    security_context: _PodContext = _PodContext()
    volumes: tuple[dict[str, Any], ...] = ()

    @property
    def volume_kinds(self) -> frozenset[str]:
        """The types of the pod's volumes, as named in constraints, including the token volume from the API server."""
        kinds = {next((key for key in each if key != "name"), "emptyDir") for each in self.volumes}
        token = {"projected"} if self.automount_service_account_token else set()
        return frozenset({_VOLUME_KINDS.get(kind, kind) for kind in kinds} | token)

    @property
    def uses_host_ports(self) -> bool:
        """Whether a container uses a host port. With host networking, every port is a host port."""
        containers = (*self.init_containers, *self.containers)
        return any(port.host_port or self.host_network for each in containers for port in each.ports)


class ContainerSecurity(msgspec.Struct, frozen=True):
    """The security settings of a container, which it sets or inherits from the pod.

    Attributes:
        name: the name of the container.
        user: the user ID; None for the image's user.
        non_root: whether the kubelet refuses to start the container as root.
        privileged: whether the container is privileged.
        escalates: whether the container's processes may gain more privileges.
        read_only: whether the root file system is read-only.
        added: capabilities in addition to the container runtime's default capabilities, sorted.
        dropped: capabilities that the container drops.
        seccomp: the seccomp profile, as named in constraints; empty for none.
        selinux: the SELinux context; None if no context is set.
    """

    name: str
    user: int | None
    non_root: bool
    privileged: bool
    escalates: bool
    read_only: bool
    added: tuple[str, ...]
    dropped: frozenset[str]
    seccomp: str
    selinux: SELinuxOptions | None


def read_pod_security(pod_spec: Mapping[str, object]) -> PodSecurity:
    """Return the security fields of a pod's specification.

    Raises:
        ConfigurationError: the specification is not a valid pod specification.
    """
    try:
        return msgspec.convert(_without_nulls(pod_spec), PodSecurity, strict=False)
    except msgspec.ValidationError as exc:
        raise ConfigurationError(f"cannot read the pod specification: {exc}") from exc


def list_containers(pod: PodSecurity) -> Iterator[ContainerSecurity]:
    """Yield the security settings of each container of a pod, init containers first."""
    shared = pod.security_context
    for each in (*pod.init_containers, *pod.containers):
        own = each.security_context
        profile = own.seccomp_profile or shared.seccomp_profile
        non_root = shared.run_as_non_root if own.run_as_non_root is None else own.run_as_non_root
        yield ContainerSecurity(
            name=each.name,
            user=shared.run_as_user if own.run_as_user is None else own.run_as_user,
            non_root=bool(non_root),
            privileged=own.privileged,
            # Kubernetes allows privilege escalation by default.
            escalates=own.allow_privilege_escalation is not False,
            read_only=own.read_only_root_filesystem,
            added=tuple(sorted(own.capabilities.add)),
            dropped=frozenset(own.capabilities.drop),
            seccomp=profile.name if profile else "",
            selinux=own.se_linux_options or shared.se_linux_options,
        )


def _without_nulls(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _without_nulls(each) for key, each in value.items() if each is not None}
    if isinstance(value, list | tuple):
        return [_without_nulls(each) for each in value]
    return value
