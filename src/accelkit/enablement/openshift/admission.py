"""Check of a pod against SecurityContextConstraints, with the same rules as OpenShift's admission plugin.

The pod is checked without the values that admission adds, such as the namespace's groups and an SELinux level. These
values always satisfy the strategy that adds them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from accelkit.enablement.openshift.constraints import ANY, MUST, NON_ROOT, Constraints, GroupStrategy, UserStrategy
from accelkit.enablement.openshift.pod_security import (
    ContainerSecurity,
    PodSecurity,
    list_containers,
    read_pod_security,
)


def find_violations(pod_spec: Mapping[str, object], constraints: Constraints) -> list[str]:
    """Return the reasons why a pod would be rejected or changed, sorted; empty if it is admitted unchanged.

    Raises:
        ConfigurationError: the specification is not a valid pod specification.
    """
    pod = read_pod_security(pod_spec)
    found = [*_judge_pod(pod, constraints)]
    for each in list_containers(pod):
        found += [f"container {each.name}: {reason}" for reason in _judge_container(each, constraints)]
    return sorted(found)


def _judge_pod(pod: PodSecurity, constraints: Constraints) -> Iterator[str]:
    requested = {
        "sharing the host's network": (pod.host_network, constraints.allow_host_network),
        "sharing the host's processes": (pod.host_pid, constraints.allow_host_pid),
        "sharing the host's IPC": (pod.host_ipc, constraints.allow_host_ipc),
        "a host port": (pod.uses_host_ports, constraints.allow_host_ports),
        "a host folder": ("hostPath" in pod.volume_kinds, constraints.allow_host_dir_volume_plugin),
    }
    for what, (uses, allowed) in requested.items():
        if uses and not allowed:
            yield f"{what} is not allowed"
    if "*" not in constraints.volumes:
        for kind in pod.volume_kinds - {*constraints.volumes}:
            yield f"volumes of the kind {kind} are not allowed"
    context = pod.security_context
    yield from _judge_groups("fsGroup", () if context.fs_group is None else (context.fs_group,), constraints.fs_group)
    yield from _judge_groups("group", context.supplemental_groups, constraints.supplemental_groups)
    for sysctl in context.sysctls:
        forbidden = any(_matches(sysctl.name, each) for each in constraints.forbidden_sysctls)
        if forbidden or not any(_matches(sysctl.name, each) for each in constraints.allowed_unsafe_sysctls):
            yield f"the sysctl {sysctl.name} is not allowed"


def _judge_groups(what: str, groups: tuple[int, ...], strategy: GroupStrategy) -> Iterator[str]:
    if strategy.type == ANY:
        return
    for group in groups:
        if not any(each.min <= group <= each.max for each in strategy.ranges):
            yield f"the {what} {group} is not allowed"
    if strategy.ranges and not groups:
        yield f"admission would add a {what}"


def _judge_container(each: ContainerSecurity, constraints: Constraints) -> Iterator[str]:
    if each.privileged and not constraints.allow_privileged_container:
        yield "privileged is not allowed"
    if each.escalates and not constraints.allow_privilege_escalation:
        yield "privilege escalation is not allowed"
    if constraints.read_only_root_filesystem and not each.read_only:
        yield "its root file system would be read-only"
    if "*" not in constraints.allowed_capabilities:
        for name in sorted({*each.added} - {*constraints.allowed_capabilities}):
            yield f"the capability {name} is not allowed"
    for name in sorted({*constraints.required_drop_capabilities} - each.dropped):
        yield f"the capability {name} must be dropped"
    if each.seccomp and not {each.seccomp, "*"} & {*constraints.seccomp_profiles}:
        yield f"the seccomp profile {each.seccomp} is not allowed"
    yield from _judge_user(each, constraints.run_as_user)
    context = constraints.se_linux_context
    if context.type == MUST and each.selinux is not None and each.selinux != context.se_linux_options:
        yield "its SELinux context is not allowed"


def _judge_user(each: ContainerSecurity, strategy: UserStrategy) -> Iterator[str]:
    if strategy.type == ANY:
        return
    if strategy.type == NON_ROOT:
        if each.user == 0 or (each.user is None and not each.non_root):
            yield "it may run as root"
        return
    if each.user is None:
        yield "admission would choose a user for it"
        return
    lowest = strategy.uid if strategy.type == MUST else strategy.uid_range_min
    highest = strategy.uid if strategy.type == MUST else strategy.uid_range_max
    # If the strategy does not contain numbers, the range of the namespace applies, which is unknown here.
    if lowest is None or highest is None or not lowest <= each.user <= highest:
        yield f"the user {each.user} is not allowed"


def _matches(name: str, pattern: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
