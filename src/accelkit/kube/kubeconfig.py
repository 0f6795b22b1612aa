"""Reads kubeconfigs, by the `kubernetes` package: several files merged into one, and credential plugins."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelkit.errors import ConfigurationError
from accelkit.kube.options import ConnectionOptions

if TYPE_CHECKING:
    from kubernetes import client

_PLUGINS = ("exec", "auth-provider")
# The package keeps the files of all its users in one list, and deletes them all at once: whoever has it write them and
# uses them holds this, so that no other thread deletes them in between.
_credential_files = threading.RLock()


def read_kubeconfig(options: ConnectionOptions, environ: Mapping[str, str]) -> tuple[client.Configuration, str]:
    """Read the kubeconfig that the options name, else those of KUBECONFIG, else ~/.kube/config.

    Returns:
        The settings of a client of the `kubernetes` package, which renew a token that has expired when they are asked
        for it; and how a sentence calls the kubeconfig. Certificates and keys that it holds lie in temporary files,
        until `credential_files` ends, in which this is called.

    Raises:
        ConfigurationError: there is none, it is wrong, or its plugin gives no credentials.
    """
    source, name = _find(options, environ)
    try:
        # Half a second and 40 MB that services in pods never need.
        from kubernetes import client  # noqa: PLC0415
        from kubernetes.config import ConfigException, kube_config  # noqa: PLC0415
        from yaml import YAMLError  # noqa: PLC0415
    except ImportError as exc:
        raise ConfigurationError(
            f"{name} cannot be read without the Python package kubernetes",
            next_step="pip install 'accelkit[kubeconfig]'",
        ) from exc
    settings = client.Configuration()
    # Its own default is this machine.
    settings.host = ""
    try:
        with _collect_errors() as errors:
            if isinstance(source, str):
                merger = kube_config.KubeConfigMerger(source)
                document, save = merger.config, merger.save_changes
            else:
                document, save = kube_config.ConfigNode("kubeconfig", dict(source)), None
            loader = kube_config.KubeConfigLoader(
                document,
                active_context=options.context or None,
                # Files are found beside the kubeconfig that names them.
                config_base_path=None,
                config_persister=save if options.persist_config else None,
            )
            loader.load_and_set(settings)
        user = _find_user(document, loader.current_context)
    except (OSError, UnicodeDecodeError, YAMLError) as exc:
        raise ConfigurationError(f"{name} cannot be read: {exc}") from exc
    except (ConfigException, ValueError, TypeError, LookupError, AttributeError) as exc:
        raise ConfigurationError(f"{name} cannot be used: {exc}") from exc
    # The package goes on without credentials, and its user would learn that somebody anonymous is forbidden something.
    if any(plugin in user for plugin in _PLUGINS) and not (settings.api_key or settings.cert_file):
        raise ConfigurationError(
            f"the credential plugin of {name} gave no credentials: {'; '.join(errors) or 'it says nothing'}",
            next_step="log in with the program that it names",
        )
    return settings, name


@contextmanager
def credential_files() -> Iterator[None]:
    """Let the package write a kubeconfig's certificates and keys into files, which are deleted at the end.

    It deletes them itself when Python ends, which it never learns in a process of Ansible's, or in one that is killed.
    """
    with _credential_files:
        try:
            yield
        finally:
            if module := sys.modules.get("kubernetes.config.kube_config"):
                module._cleanup_temp_files()  # noqa: SLF001 - there is no other way to them


def _find(options: ConnectionOptions, environ: Mapping[str, str]) -> tuple[str | Mapping[str, Any], str]:
    """Return the paths or the content of the kubeconfig, and what to call it in a sentence."""
    given = options.kubeconfig
    if isinstance(given, Mapping):
        return given, "the kubeconfig that was given as a mapping"
    home = Path(environ.get("HOME", "/"), ".kube", "config")
    source = str(given or "") or environ.get("KUBECONFIG") or str(home)
    paths = [Path(each).expanduser() for each in source.split(os.pathsep) if each]
    if any(path.is_file() for path in paths):
        return os.pathsep.join(map(str, paths)), f"kubeconfig {source}"
    if given or environ.get("KUBECONFIG"):
        raise ConfigurationError(f"kubeconfig {source} cannot be read: there is no such file")
    raise ConfigurationError(
        "no Kubernetes cluster is configured: there is no KUBECONFIG, no ~/.kube/config and no pod's service account",
        next_step="set KUBECONFIG, or give the path of a kubeconfig",
    )


def _find_user(document: Any, context: Mapping[str, Any]) -> Mapping[str, Any]:
    name = context["context"].get("user")
    found = document["users"].get_with_name(name) if name else {}
    return found.get("user") or {} if isinstance(found, Mapping) else found.value.get("user") or {}


@contextmanager
def _collect_errors() -> Iterator[list[str]]:
    """Collect what the package only logs: why a plugin gave nothing."""
    found: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record.getMessage())

    collector = Collector(logging.ERROR)
    logging.getLogger().addHandler(collector)
    try:
        yield found
    finally:
        logging.getLogger().removeHandler(collector)
