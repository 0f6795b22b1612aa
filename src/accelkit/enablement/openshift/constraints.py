"""SecurityContextConstraints for a ServiceAccount's pods on OpenShift, computed from the pod templates.

Only permissions that a template uses are allowed. Therefore, an attacker who controls one of accelkit's ServiceAccounts
does not get more permissions than its pods have. If a strategy does not specify ranges, OpenShift uses the ranges of
the namespace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from accelkit.enablement.openshift.pod_security import (
    ContainerSecurity,
    PodSecurity,
    SELinuxOptions,
    list_containers,
    read_pod_security,
)

CONSTRAINTS_API: Final = "security.openshift.io/v1"
CONSTRAINTS_KIND: Final = "SecurityContextConstraints"
ANY: Final = "RunAsAny"
MUST: Final = "MustRunAs"
RANGE: Final = "MustRunAsRange"
NON_ROOT: Final = "MustRunAsNonRoot"


class UserStrategy(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The users that containers may run as. Only the numbers that the strategy type uses are set."""

    type: str
    uid: int | None = None
    uid_range_min: int | None = None
    uid_range_max: int | None = None


class ContextStrategy(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The SELinux contexts that containers may have; without options, the context with the namespace's level."""

    type: str
    se_linux_options: SELinuxOptions | None = None


class IdRange(msgspec.Struct, frozen=True):
    """A range of group numbers."""

    min: int
    max: int


class GroupStrategy(msgspec.Struct, frozen=True, omit_defaults=True):
    """The groups that pods may have; without ranges, the groups of the namespace."""

    type: str
    ranges: tuple[IdRange, ...] = ()


class Constraints(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The fields of SecurityContextConstraints that affect admission, without the users they apply to."""

    allow_host_dir_volume_plugin: bool
    allow_host_ipc: bool = msgspec.field(name="allowHostIPC")
    allow_host_network: bool
    allow_host_pid: bool = msgspec.field(name="allowHostPID")
    allow_host_ports: bool
    allow_privilege_escalation: bool
    allow_privileged_container: bool
    allowed_capabilities: tuple[str, ...]
    allowed_unsafe_sysctls: tuple[str, ...]
    forbidden_sysctls: tuple[str, ...]
    fs_group: GroupStrategy
    read_only_root_filesystem: bool
    required_drop_capabilities: tuple[str, ...]
    run_as_user: UserStrategy
    se_linux_context: ContextStrategy
    seccomp_profiles: tuple[str, ...]
    supplemental_groups: GroupStrategy
    volumes: tuple[str, ...]
    # These fields are required. accelkit's constraints have the lowest priority and do not add capabilities.
    default_add_capabilities: tuple[str, ...] = ()
    priority: int = 0


def needed_constraints(*pod_specs: Mapping[str, object]) -> Constraints:
    """Return the narrowest constraints that admit all of these pods unchanged.

    Args:
        pod_specs: specifications of pods that run under one ServiceAccount; must not be empty.

    Raises:
        ConfigurationError: a specification is not a valid pod specification.
    """
    pods = [read_pod_security(each) for each in pod_specs]
    containers = [each for pod in pods for each in list_containers(pod)]
    sysctls = sorted({each.name for pod in pods for each in pod.security_context.sysctls})
    dropped = frozenset[str].intersection(*(each.dropped for each in containers)) if containers else frozenset()
    volumes = frozenset[str]().union(*(pod.volume_kinds for pod in pods))
    return Constraints(
        allow_host_dir_volume_plugin="hostPath" in volumes,
        allow_host_ipc=any(pod.host_ipc for pod in pods),
        allow_host_network=any(pod.host_network for pod in pods),
        allow_host_pid=any(pod.host_pid for pod in pods),
        allow_host_ports=any(pod.uses_host_ports for pod in pods),
        allow_privilege_escalation=any(each.escalates for each in containers),
        allow_privileged_container=any(each.privileged for each in containers),
        allowed_capabilities=tuple(sorted({name for each in containers for name in each.added})),
        allowed_unsafe_sysctls=tuple(sysctls),
        forbidden_sysctls=() if sysctls else ("*",),
        fs_group=_choose_groups([pod.security_context.fs_group for pod in pods]),
        read_only_root_filesystem=all(each.read_only for each in containers),
        required_drop_capabilities=tuple(sorted(dropped)),
        run_as_user=_choose_users(containers),
        se_linux_context=_choose_context(containers),
        seccomp_profiles=tuple(sorted({each.seccomp for each in containers} - {""})),
        supplemental_groups=_choose_groups(_list_supplemental(pods)),
        # An empty list of volumes has the same meaning as "none", but is less explicit.
        volumes=tuple(sorted(volumes)) or ("none",),
    )


def write_constraints(
    constraints: Constraints, name: str, *, users: Sequence[str], labels: Mapping[str, str]
) -> dict[str, Any]:
    """Return the object that grants these constraints to users.

    Args:
        constraints: the permissions to grant.
        name: the name of the object, which must not be the name of a namespace.
        users: the users, in the form `system:serviceaccount:NAMESPACE:NAME`.
        labels: labels of the object.
    """
    fields: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(constraints))
    return {
        "apiVersion": CONSTRAINTS_API,
        "kind": CONSTRAINTS_KIND,
        "metadata": {"name": name, "labels": dict(labels)},
        "users": list(users),
        "groups": [],
        **fields,
    }


def read_constraints(written: Mapping[str, object]) -> Constraints:
    """Return the constraints of an object from the API server.

    Raises:
        msgspec.ValidationError: a field that affects admission is missing or has the wrong type.
    """
    return msgspec.convert({key: each for key, each in written.items() if each is not None}, Constraints)


def _choose_users(containers: Sequence[ContainerSecurity]) -> UserStrategy:
    users = {each.user for each in containers}
    numbers = [user for user in users if user is not None]
    if len(numbers) < len(users):
        # The user of the image is unknown here.
        unnamed = [each for each in containers if each.user is None]
        safe = all(each.non_root for each in unnamed) and 0 not in numbers
        return UserStrategy(NON_ROOT if safe else ANY)
    if len(numbers) == 1:
        return UserStrategy(MUST, uid=numbers[0])
    return UserStrategy(RANGE, uid_range_min=min(numbers), uid_range_max=max(numbers)) if numbers else UserStrategy(ANY)


def _choose_context(containers: Sequence[ContainerSecurity]) -> ContextStrategy:
    found = {each.selinux for each in containers}
    if found <= {None}:
        return ContextStrategy(MUST)
    options = next(iter(found)) if len(found) == 1 else None
    # Options without a level would be compared with the namespace's level and rejected.
    return ContextStrategy(MUST, options) if options and options.level else ContextStrategy(ANY)


def _choose_groups(groups: Sequence[int | None]) -> GroupStrategy:
    numbers = sorted({group for group in groups if group is not None})
    if not numbers:
        return GroupStrategy(MUST)
    # A pod that does not specify a group would get the first group of the ranges.
    return GroupStrategy(ANY) if None in groups else GroupStrategy(MUST, tuple(IdRange(one, one) for one in numbers))


def _list_supplemental(pods: Sequence[PodSecurity]) -> list[int | None]:
    groups: list[int | None] = []
    for pod in pods:
        groups += pod.security_context.supplemental_groups or (None,)
    return groups
