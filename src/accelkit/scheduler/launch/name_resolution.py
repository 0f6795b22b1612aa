"""Check of whether a kube-scheduler on the host network can resolve the host names that it needs.

A static pod on the host network uses the host's resolver, which cannot resolve Services. With the dnsPolicy
ClusterFirstWithHostNet, it uses the cluster's DNS for every name, including the name of the API server. However, this
kube-scheduler also places the DNS pods. Without running DNS pods, it could not reach the API server to place them.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from ruamel.yaml.error import YAMLError

from accelkit.errors import ConfigurationError
from accelkit.scheduler.configuration.command_line import Option, find_option_value
from accelkit.scheduler.launch.plan import DesiredSettings, Read
from accelkit.scheduler.launch.pod_manifest import PodManifest
from accelkit.yaml import load_yaml

CLUSTER_FIRST: Final = "ClusterFirstWithHostNet"
_HOSTS: Final = "/etc/hosts"


def check_name_resolution(
    pod: PodManifest, options: Sequence[Option], desired: DesiredSettings, read: Read
) -> tuple[str, ...]:
    """Return messages about problems with name resolution that need attention.

    Raises:
        ConfigurationError: the extender's name cannot be resolved, or its resolution depends on the cluster's DNS.
    """
    if desired.dns_policy not in {"", CLUSTER_FIRST}:
        raise ConfigurationError(
            f"dns_policy {desired.dns_policy!r} is invalid", next_step=f"leave it empty, or choose {CLUSTER_FIRST}"
        )
    host = urlsplit(desired.extender.url_prefix).hostname or ""
    policy = desired.dns_policy or str(pod.spec.get("dnsPolicy") or "")
    if _names_a_service(host) and pod.spec.get("hostNetwork") and policy != CLUSTER_FIRST:
        raise ConfigurationError(
            f"kube-scheduler on the host's network cannot resolve the Service name {host}",
            next_step=f"use the Service's ClusterIP with tlsConfig.serverName, or set dns_policy to {CLUSTER_FIRST}",
        )
    return _check_cluster_dns(pod, options, desired, read) if desired.dns_policy else ()


def _check_cluster_dns(
    pod: PodManifest, options: Sequence[Option], desired: DesiredSettings, read: Read
) -> tuple[str, ...]:
    if not desired.extender.managed_resources and not desired.extender.ignorable:
        raise ConfigurationError(
            f"with dns_policy {CLUSTER_FIRST} every pod, including the DNS pods, would wait for an extender whose name "
            "only the cluster's DNS can resolve",
            next_step="use the Service's ClusterIP, or specify the resources that the extender manages",
        )
    path = find_option_value(options, "kubeconfig")
    if path is None:
        return ()
    content = read(pod.find_host_path(path))
    server = None if content is None else _server(content)
    if server is None:
        return (f"the API server's name in {path} cannot be read; it must not depend on the cluster's DNS",)
    if _is_address(server) or _in_hosts(server, read(_HOSTS)):
        return ()
    raise ConfigurationError(
        f"with dns_policy {CLUSTER_FIRST}, kube-scheduler would resolve the API server's name {server} with the "
        "cluster's DNS, whose pods it must schedule first",
        next_step=f"use the Service's ClusterIP and leave dns_policy empty, or add {server} to {_HOSTS}",
    )


def _names_a_service(host: str) -> bool:
    return "svc" in host.split(".")[2:3]


def _server(kubeconfig: bytes) -> str | None:
    try:
        document: Any = load_yaml(kubeconfig)
        current = document.get("current-context")
        context = next(each["context"] for each in document["contexts"] if each["name"] == current)
        cluster = next(each["cluster"] for each in document["clusters"] if each["name"] == context["cluster"])
        return urlsplit(str(cluster["server"])).hostname
    except (YAMLError, AttributeError, KeyError, TypeError, StopIteration, ValueError):
        return None


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return True


def _in_hosts(host: str, content: bytes | None) -> bool:
    lines = (content or b"").decode(errors="replace").splitlines()
    return any(host in line.partition("#")[0].split()[1:] for line in lines)
