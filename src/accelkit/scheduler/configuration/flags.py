"""Configuration file fields for the flags that kube-scheduler ignores if --config is set.

In Kubernetes, cmd/kube-scheduler/app/options defines these rules. If the file omits a field, the default of the file
format applies instead of the flag's default. Since about version 1.22, kube-scheduler again reads the leader election
flags in addition to --config. In this case, the fields repeat these flags.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from accelkit.errors import ConfigurationError
from accelkit.scheduler.configuration.command_line import Option, find_option_value

_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "false", "FALSE", "False"})
_DEFAULT_PROVIDER: Final = "DefaultProvider"
_INSECURE_PORT: Final = 10251
# Formats in which kube-scheduler opens an insecure port by default, unless the file disables this port.
_FORMATS_WITH_INSECURE_PORT: Final = frozenset({"v1beta1", "v1beta2"})


@dataclass(frozen=True)
class CarriedFlags:
    """Fields of a new configuration that replace flags, and messages about flags that no field can replace."""

    fields: dict[str, Any]
    problems: tuple[str, ...] = ()


def carry_flags(options: Iterable[Option], api_version: str, minor: int) -> CarriedFlags:
    """Return the configuration fields for the flags that --config disables.

    Args:
        options: the options of the command line.
        api_version: the apiVersion of the configuration, without its group.
        minor: the minor Kubernetes version.

    Raises:
        ConfigurationError: kube-scheduler would reject the value of a flag.
    """
    options = tuple(options)
    fields: dict[str, Any] = {}
    for flag, (path, read) in _FIELDS.items():
        value = find_option_value(options, flag)
        if value is not None:
            _put(fields, path, _read(flag, value, read))
    if api_version in _FORMATS_WITH_INSECURE_PORT and minor <= _LAST_INSECURE_MINOR:
        fields.update(_insecure_serving(options))
    if profile := _profile(options):
        fields["profiles"] = [profile]
    return CarriedFlags(fields, tuple(_problems(options)))


def _boolean(value: str) -> bool:
    if value not in _TRUE | _FALSE:
        raise ValueError(value)
    return value in _TRUE


def _number(value: str) -> float | int:
    number = float(value)
    return int(number) if number.is_integer() else number


# A later row overrides an earlier row with the same field, as in kube-scheduler.
_FIELDS: Final[Mapping[str, tuple[tuple[str, ...], Callable[[str], Any]]]] = {
    "kubeconfig": (("clientConnection", "kubeconfig"), str),
    "kube-api-content-type": (("clientConnection", "contentType"), str),
    "kube-api-qps": (("clientConnection", "qps"), _number),
    "kube-api-burst": (("clientConnection", "burst"), int),
    "leader-elect": (("leaderElection", "leaderElect"), _boolean),
    "leader-elect-lease-duration": (("leaderElection", "leaseDuration"), str),
    "leader-elect-renew-deadline": (("leaderElection", "renewDeadline"), str),
    "leader-elect-retry-period": (("leaderElection", "retryPeriod"), str),
    "leader-elect-resource-lock": (("leaderElection", "resourceLock"), str),
    "lock-object-name": (("leaderElection", "resourceName"), str),
    "lock-object-namespace": (("leaderElection", "resourceNamespace"), str),
    "leader-elect-resource-name": (("leaderElection", "resourceName"), str),
    "leader-elect-resource-namespace": (("leaderElection", "resourceNamespace"), str),
    "profiling": (("enableProfiling",), _boolean),
    "contention-profiling": (("enableContentionProfiling",), _boolean),
}
_LAST_INSECURE_MINOR: Final = 22


def _read(flag: str, value: str, read: Callable[[str], Any]) -> Any:
    try:
        return read(value)
    except ValueError as exc:
        raise ConfigurationError(
            f"cannot convert kube-scheduler's flag --{flag}: kube-scheduler rejects its value {value!r}"
        ) from exc


def _put(fields: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    *parents, last = path
    for parent in parents:
        fields = fields.setdefault(parent, {})
    fields[last] = value


def _insecure_serving(options: tuple[Option, ...]) -> dict[str, str]:
    port, address = find_option_value(options, "port"), find_option_value(options, "address")
    if port is None and address is None:
        return {}
    number = _INSECURE_PORT if port is None else _read("port", port, int)
    host = address or "0.0.0.0"  # noqa: S104 - the flag's default; with port 0, nothing listens there
    bind = f"[{host}]:{number}" if ":" in host else f"{host}:{number}"
    return {"healthzBindAddress": bind, "metricsBindAddress": bind}


def _profile(options: tuple[Option, ...]) -> dict[str, Any]:
    profile: dict[str, Any] = {}
    if name := find_option_value(options, "scheduler-name"):
        profile["schedulerName"] = name
    flag = "hard-pod-affinity-symmetric-weight"
    if weight := find_option_value(options, flag):
        args = {"hardPodAffinityWeight": _read(flag, weight, int)}
        profile["pluginConfig"] = [{"name": "InterPodAffinity", "args": args}]
    return profile


def _problems(options: tuple[Option, ...]) -> Iterable[str]:
    provider = find_option_value(options, "algorithm-provider")
    if provider not in {None, "", _DEFAULT_PROVIDER}:
        yield (
            f"the flag --algorithm-provider={provider} has no field in the configuration, so it has no effect; "
            "configure its plugins as a profile"
        )
