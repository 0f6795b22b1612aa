"""accelkit's entry in kube-scheduler's list of extenders, and the entries of other extenders."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from accelkit.errors import ConfigurationError
from accelkit.model.keys import CARDS_RESOURCE, MEMORY_RESOURCE

OWN_RESOURCES: Final = (MEMORY_RESOURCE, CARDS_RESOURCE)
_OWN_PREFIX: Final = "accelkit.io/"
_NANOSECONDS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)")


@dataclass(frozen=True, kw_only=True)
class ExtenderEntry:
    """Settings that kube-scheduler uses to call accelkit's extender.

    Attributes:
        url_prefix: the extender's address, for example `http://127.0.0.1:32766`.
        weight: weight of the extender's scores, relative to the scores of kube-scheduler's plugins.
        http_timeout: timeout of one call, as a Go duration.
        enable_https: whether kube-scheduler uses TLS, with the credentials in tls_config.
        tls_config: TLS settings under kube-scheduler's names, such as `insecure`, `certFile`, `keyFile`, `caFile` and
            `serverName`.
        node_cache_capable: whether kube-scheduler sends only node names.
        ignorable: whether pods are scheduled without the extender if it does not respond.
        managed_resources: the resources; kube-scheduler calls the extender only for pods that request one of these
            resources.
    """

    url_prefix: str
    weight: int = 1
    http_timeout: str = "10s"
    enable_https: bool = False
    tls_config: dict[str, Any] | None = None
    node_cache_capable: bool = True
    ignorable: bool = False
    managed_resources: tuple[str, ...] = OWN_RESOURCES

    def build_entry(self) -> dict[str, Any]:
        """Return the entry in the format of a KubeSchedulerConfiguration."""
        entry: dict[str, Any] = {
            "urlPrefix": self.url_prefix,
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            "preemptVerb": "preempt",
            "bindVerb": "bind",
            "weight": self.weight,
            "enableHTTPS": self.enable_https,
            "nodeCacheCapable": self.node_cache_capable,
            "ignorable": self.ignorable,
            "httpTimeout": self.http_timeout,
            "managedResources": [{"name": name, "ignoredByScheduler": False} for name in self.managed_resources],
        }
        if self.tls_config:
            entry["tlsConfig"] = self.tls_config
        return entry

    def build_legacy_entry(self) -> dict[str, Any]:
        """Return the entry in the format of a Policy, in which two keys differ and times are in nanoseconds."""
        entry = self.build_entry()
        entry["enableHttps"] = entry.pop("enableHTTPS")
        entry["httpTimeout"] = parse_duration(self.http_timeout)
        return entry


def is_ours(entry: dict[str, Any], url_prefix: str | None = None) -> bool:
    """Return whether an entry is accelkit's entry, which is identified by its resources or by `url_prefix`."""
    if url_prefix and str(entry.get("urlPrefix", "")).rstrip("/") == url_prefix.rstrip("/"):
        return True
    managed = entry.get("managedResources") or ()
    return any(str(each.get("name", "")).startswith(_OWN_PREFIX) for each in managed if isinstance(each, dict))


def check_binds_alone(others: Iterable[dict[str, Any]]) -> None:
    """Raise an error if another extender binds.

    Raises:
        ConfigurationError: another extender binds.
    """
    for entry in others:
        if entry.get("bindVerb"):
            raise ConfigurationError(
                f"the extender {entry.get('urlPrefix')} already binds pods, and only one extender may bind",
                next_step="remove its entry, or its bindVerb, from the configuration first",
            )


def parse_duration(duration: str) -> int:
    """Return a Go duration, such as `1m30s`, in nanoseconds.

    Raises:
        ConfigurationError: the duration is invalid.
    """
    if duration == "0":
        return 0
    parts = _PART.findall(duration)
    if not parts or "".join(number + unit for number, unit in parts) != duration:
        raise ConfigurationError(f"{duration!r} is not a valid duration", next_step="write it as 10s or 500ms")
    return round(sum(float(number) * _NANOSECONDS[unit] for number, unit in parts))
