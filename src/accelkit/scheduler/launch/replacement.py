"""Replacement of the configuration of a running kube-scheduler: a merged copy, and the option that refers to the copy.

No file is edited in place. The name of the copy contains its digest. Therefore, the old and the new configuration
coexist until the launch file is renamed, and the command line identifies the active configuration.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from accelkit.errors import ConfigurationError
from accelkit.scheduler.configuration.command_line import Option, find_option_value
from accelkit.scheduler.configuration.component_config import add_extender, build_configuration, read_api_version
from accelkit.scheduler.configuration.extender_entry import ExtenderEntry
from accelkit.scheduler.configuration.flags import carry_flags
from accelkit.scheduler.configuration.legacy_policy import add_extender_to_policy
from accelkit.scheduler.configuration.versions import check_readable, choose_written_format, parse_minor, reads_policy
from accelkit.scheduler.launch.plan import DesiredSettings, PlannedFile, Read

_SYSTEM_NAMESPACE: Final = "kube-system"
_POLICY_KEY: Final = "policy.cfg"
_DIGEST_LENGTH: Final = 12
_CONFIG_MAP_OPTIONS: Final = ("policy-configmap", "policy-configmap-namespace", "use-legacy-policy-config")


@dataclass(frozen=True, kw_only=True)
class Replacement:
    """An option that replaces several options.

    Attributes:
        name: the name of the option, without dashes.
        value: the path of accelkit's copy.
        replaced: the names of the options that are removed.
        files: the files by path on the host.
        problems: messages about issues that need attention, as in `Plan`.
    """

    name: str
    value: str
    replaced: tuple[str, ...]
    files: dict[str, PlannedFile]
    problems: tuple[str, ...]

    @property
    def marker(self) -> str:
        """The part of the command line that identifies the configuration after the replacement."""
        return f"--{self.name}={self.value}"


def make_replacement(
    options: Sequence[Option],
    desired: DesiredSettings,
    *,
    open_file: Callable[[str], str],
    read: Read,
    owner: int | None,
) -> Replacement:
    """Return the replacement for the current configuration.

    Args:
        options: the options of the current command line.
        desired: the desired settings.
        open_file: a function that returns the text of a file that an option refers to, given its path in
            kube-scheduler's container.
        read: a function that reads ConfigMaps.
        owner: the user that runs kube-scheduler; None for root.

    Raises:
        ConfigurationError: the current configuration cannot be read or merged.
    """
    minor = parse_minor(desired.kubernetes_version)
    extender, files = add_credentials(desired, owner=owner)
    desired = dataclasses.replace(desired, extender=extender)
    config = find_option_value(options, "config")
    source = _policy_source(options, minor)
    if source is not None:
        text = add_extender_to_policy(_policy_text(source, open_file, read), extender)
        return _replacing("policy-config-file", text, desired, files, ())
    if config is not None:
        text = open_file(config)
        check_readable(read_api_version(text), minor)
        return _replacing("config", add_extender(text, extender), desired, files, ())
    written = choose_written_format(minor)
    carry = carry_flags(options, written, minor)
    return _replacing("config", build_configuration(written, carry.fields, extender), desired, files, carry.problems)


def _replacing(
    name: str, text: str, desired: DesiredSettings, files: dict[str, PlannedFile], problems: tuple[str, ...]
) -> Replacement:
    path = _digest_path(desired.folder, "scheduler", "json" if name != "config" else "yaml", text.encode())
    gone = ("config",) if name == "config" else ("policy-config-file", *_CONFIG_MAP_OPTIONS)
    return Replacement(
        name=name,
        value=path,
        replaced=gone,
        files={**files, path: PlannedFile(content=text.encode())},
        problems=problems,
    )


def _policy_source(options: Sequence[Option], minor: int) -> dict[str, Any] | None:
    """Return the source of the active Policy; None if there is no Policy."""
    file, config_map = find_option_value(options, "policy-config-file"), find_option_value(options, "policy-configmap")
    if not file and not config_map:
        return None
    if not reads_policy(minor):
        raise ConfigurationError(
            f"kube-scheduler is configured with a Policy, which Kubernetes 1.{minor} does not support",
            next_step="check the configured version, or remove the policy options",
        )
    legacy = find_option_value(options, "use-legacy-policy-config") in {"true", "True", "TRUE", "t", "T", "1"}
    if config_map and not legacy:
        namespace = find_option_value(options, "policy-configmap-namespace") or _SYSTEM_NAMESPACE
        return {"configMap": {"namespace": namespace, "name": config_map}}
    return {"file": {"path": file}} if file else None


def _policy_text(source: dict[str, Any], open_file: Callable[[str], str], read: Read) -> str:
    if file := source.get("file"):
        return open_file(str(file["path"]))
    config_map = source["configMap"]
    namespace, name = config_map.get("namespace") or _SYSTEM_NAMESPACE, config_map["name"]
    content = read(f"configmap:{namespace}/{name}/{_POLICY_KEY}")
    if content is None:
        raise ConfigurationError(
            f"cannot read kube-scheduler's Policy: the ConfigMap {namespace}/{name} has no key {_POLICY_KEY}"
        )
    return content.decode()


def add_credentials(desired: DesiredSettings, *, owner: int | None) -> tuple[ExtenderEntry, dict[str, PlannedFile]]:
    """Return the extender's entry with its TLS configuration, and the files that this configuration refers to.

    Args:
        desired: the desired settings.
        owner: the user that runs kube-scheduler, and the only user that can read the key; None for root.
    """
    if desired.credentials is None:
        return desired.extender, {}
    given = desired.credentials
    folder = desired.folder
    authority = _digest_path(folder, "extender-ca", "crt", given.ca)
    # client-go reads the client certificate and the key again for new connections, but reads the CA certificate only
    # once.
    certificate, key = f"{folder}/client.crt", f"{folder}/client.key"
    tls = {**(desired.extender.tls_config or {}), "certFile": certificate, "keyFile": key, "caFile": authority}
    files = {
        authority: PlannedFile(content=given.ca),
        certificate: PlannedFile(content=given.certificate),
        key: PlannedFile(content=given.key, mode="0600", owner=owner),
    }
    return dataclasses.replace(desired.extender, enable_https=True, tls_config=tls), files


def _digest_path(folder: str, stem: str, suffix: str, content: bytes) -> str:
    return f"{folder}/{stem}-{hashlib.sha256(content).hexdigest()[:_DIGEST_LENGTH]}.{suffix}"
