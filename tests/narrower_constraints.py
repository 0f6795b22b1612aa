"""Every way to make constraints narrower by one step."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from accelkit.enablement.openshift.constraints import (
    ANY,
    MUST,
    NON_ROOT,
    RANGE,
    Constraints,
    ContextStrategy,
    GroupStrategy,
    IdRange,
    UserStrategy,
)

_SWITCHES = (
    "allow_host_dir_volume_plugin",
    "allow_host_ipc",
    "allow_host_network",
    "allow_host_pid",
    "allow_host_ports",
    "allow_privilege_escalation",
    "allow_privileged_container",
)
_LISTS = ("allowed_capabilities", "allowed_unsafe_sysctls", "seccomp_profiles", "volumes")


def tighten(one: Constraints) -> Iterator[tuple[str, Constraints]]:
    """Yield what was tightened, and the narrower constraints."""
    for name, narrower in _list_changes(one):
        yield f"{name}: {narrower}", msgspec.structs.replace(one, **{name: narrower})


def _list_changes(one: Constraints) -> Iterator[tuple[str, object]]:
    yield from ((name, False) for name in _SWITCHES if getattr(one, name))
    for name in _LISTS:
        had = getattr(one, name)
        yield from ((name, tuple(value for value in had if value != each)) for each in {*had} - {"none"})
    if not one.read_only_root_filesystem:
        yield "read_only_root_filesystem", True
    if "ALL" not in one.required_drop_capabilities:
        yield "required_drop_capabilities", ("ALL",)
    if not one.forbidden_sysctls:
        yield "forbidden_sysctls", ("*",)
    yield from (("run_as_user", user) for user in _narrow_users(one.run_as_user))
    if one.se_linux_context != ContextStrategy(MUST):
        yield "se_linux_context", ContextStrategy(MUST)
    for name in ("fs_group", "supplemental_groups"):
        yield from ((name, groups) for groups in _narrow_groups(getattr(one, name)))


def _narrow_users(strategy: UserStrategy) -> Iterator[UserStrategy]:
    if strategy.type == ANY:
        yield UserStrategy(NON_ROOT)
    if strategy.type == NON_ROOT:
        yield UserStrategy(RANGE, uid_range_min=1, uid_range_max=2**31)
    if strategy.type == RANGE:
        low, high = strategy.uid_range_min, strategy.uid_range_max
        assert low is not None
        assert high is not None
        yield UserStrategy(RANGE, uid_range_min=low + 1, uid_range_max=high)
        yield UserStrategy(RANGE, uid_range_min=low, uid_range_max=high - 1)
    if strategy.type == MUST:
        yield UserStrategy(MUST, uid=(strategy.uid or 0) + 1)


def _narrow_groups(strategy: GroupStrategy) -> Iterator[GroupStrategy]:
    if strategy.type == ANY:
        yield GroupStrategy(MUST, (IdRange(1, 1),))
    for each in strategy.ranges:
        yield GroupStrategy(MUST, tuple(kept for kept in strategy.ranges if kept != each))
