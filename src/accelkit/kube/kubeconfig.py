"""Kubeconfig reader based on the `kubernetes` package, which merges several files and runs credential plugins."""

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
# The package stores the temporary files of all callers in one list, and deletes all files at the same time. A thread
# acquires this lock while the package writes the files and while it uses them, so that another thread cannot delete
# them.
_credential_files = threading.RLock()


def read_kubeconfig(options: ConnectionOptions, environ: Mapping[str, str]) -> tuple[client.Configuration, str, str]:
    """Read the kubeconfig in the options or, if it is not specified, KUBECONFIG or ~/.kube/config.

    Returns:
        The client settings from the `kubernetes` package, which renew an expired token on request; the name of the
        kubeconfig for error messages; and the name of the context. Embedded certificates and keys are written to
        temporary files, which exist until the caller's `credential_files` context exits.

    Raises:
        ConfigurationError: no kubeconfig exists, the kubeconfig is invalid, or its plugin returned no credentials.
    """
    source, name = _find(options, environ)
    try:
        # The import takes half a second and 40 MB, and services in pods do not require it.
        from kubernetes import client  # noqa: PLC0415
        from kubernetes.config import ConfigException, kube_config  # noqa: PLC0415
        from yaml import YAMLError  # noqa: PLC0415
    except ImportError as exc:
        raise ConfigurationError(
            f"cannot read {name} without the Python package kubernetes",
            next_step="pip install 'accelkit[kubeconfig]'",
        ) from exc
    settings = client.Configuration()
    # The default server in the package is localhost.
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
                # Relative paths are relative to the folder of the kubeconfig that contains them.
                config_base_path=None,
                config_persister=save if options.persist_config else None,
            )
            loader.load_and_set(settings)
        user = _find_user(document, loader.current_context)
        context = str(loader.current_context["name"])
    except (OSError, UnicodeDecodeError, YAMLError) as exc:
        raise ConfigurationError(f"cannot read {name}: {exc}") from exc
    except (ConfigException, ValueError, TypeError, LookupError, AttributeError) as exc:
        raise ConfigurationError(f"cannot use {name}: {exc}") from exc
    # The package continues without credentials. The only error would then be that access is forbidden for
    # system:anonymous.
    if any(plugin in user for plugin in _PLUGINS) and not (settings.api_key or settings.cert_file):
        raise ConfigurationError(
            f"the credential plugin of {name} returned no credentials: {'; '.join(errors) or 'it reports no reason'}",
            next_step="log in with the program that the kubeconfig names",
        )
    return settings, name, context


@contextmanager
def credential_files() -> Iterator[None]:
    """Let the `kubernetes` package write a kubeconfig's certificates and keys to files; delete the files on exit.

    By default, the package deletes the files only when Python exits normally. Forked Ansible processes and killed
    processes do not delete them.
    """
    with _credential_files:
        try:
            yield
        finally:
            if module := sys.modules.get("kubernetes.config.kube_config"):
                module._cleanup_temp_files()  # noqa: SLF001 - the package has no public function for this


def _find(options: ConnectionOptions, environ: Mapping[str, str]) -> tuple[str | Mapping[str, Any], str]:
    """Return the paths or content of the kubeconfig, and its name for error messages."""
    given = options.kubeconfig
    if isinstance(given, Mapping):
        return given, "the kubeconfig that was given as a mapping"
    home = Path(environ.get("HOME", "/"), ".kube", "config")
    source = str(given or "") or environ.get("KUBECONFIG") or str(home)
    paths = [Path(each).expanduser() for each in source.split(os.pathsep) if each]
    if any(path.is_file() for path in paths):
        return os.pathsep.join(map(str, paths)), f"kubeconfig {source}"
    if given or environ.get("KUBECONFIG"):
        raise ConfigurationError(f"cannot read kubeconfig {source}: the file does not exist")
    raise ConfigurationError(
        "no Kubernetes cluster is configured: KUBECONFIG, ~/.kube/config and a pod's service account are missing",
        next_step="set KUBECONFIG, or specify the path of a kubeconfig",
    )


def _find_user(document: Any, context: Mapping[str, Any]) -> Mapping[str, Any]:
    name = context["context"].get("user")
    found = document["users"].get_with_name(name) if name else {}
    return found.get("user") or {} if isinstance(found, Mapping) else found.value.get("user") or {}


@contextmanager
def _collect_errors() -> Iterator[list[str]]:
    """Collect the errors that the `kubernetes` package logs but does not raise.

    They contain the reasons why a credential plugin returned no credentials.
    """
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
