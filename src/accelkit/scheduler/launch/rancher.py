"""Launch of kube-scheduler inside k3s and RKE2, for which accelkit's configuration file adds arguments.

k3s and RKE2 read config.yaml, and then config.yaml.d/*.yaml in alphabetical order. A later file replaces a key of an
earlier file, unless the key has the suffix `+`, which appends to the list. If an argument is repeated, kube-scheduler
uses the last value. Therefore, accelkit's arguments must follow all other arguments.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final, Literal

from ruamel.yaml.error import YAMLError

from accelkit.errors import ConfigurationError
from accelkit.scheduler.configuration.command_line import Option
from accelkit.scheduler.launch.plan import DesiredSettings, LaunchPlan, Read
from accelkit.scheduler.launch.replacement import make_replacement
from accelkit.yaml import load_yaml

FILE: Final = "50-accelkit.yaml"
_ARGUMENTS: Final = "kube-scheduler-arg"
_MOUNTS: Final = "kube-scheduler-extra-mount"
_HEAD: Final = "# Written by accelkit, which takes it away again.\n"


@dataclass(frozen=True)
class Rancher:
    """A k3s or RKE2 server. Implements Launch.

    Attributes:
        distribution: the Kubernetes distribution, k3s or RKE2.
        sources: the server's configuration files, in the order in which it reads the files; empty for only config.yaml.
    """

    distribution: Literal["k3s", "rke2"]
    sources: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """The path of accelkit's configuration file."""
        return f"{self._folder}/config.yaml.d/{FILE}"

    @property
    def _folder(self) -> str:
        return f"/etc/rancher/{self.distribution}"

    def plan(self, current: str | None, recorded: str | None, read: Read, desired: DesiredSettings) -> LaunchPlan:
        """Return the plan; see Launch."""
        if (current is not None and not self.is_switched(current)) or recorded is not None:
            raise ConfigurationError(
                f"cannot write {self.path}: it exists and does not belong to accelkit", next_step="rename it"
            )
        settings = self._settings(read)
        mounts = dict(_mount(each) for each in settings[_MOUNTS])
        options = [*self._own_arguments(settings["data-dir"]), *map(_option, settings[_ARGUMENTS])]

        def open_file(path: str) -> str:
            host_path = next(
                (path.replace(inside, host, 1) for inside, host in mounts.items() if _lies_in(path, inside)), path
            )
            content = read(host_path)
            if content is None:
                raise ConfigurationError(f"kube-scheduler is configured with {path}, but the host has no {host_path}")
            return content.decode()

        ours = make_replacement(options, desired, open_file=open_file, read=read, owner=None)
        given = {option.name for option in options}
        # A file can only append to a list. Therefore, options that must be removed are repeated with an empty value.
        emptied = [f"{name}=" for name in ours.replaced if name in given and name.startswith("policy-configmap")]
        lines = [f"{_ARGUMENTS}+:", *(f"- {each}" for each in (f"{ours.name}={ours.value}", *emptied))]
        if self.distribution == "rke2":
            lines += [f"{_MOUNTS}+:", f"- {desired.folder}:{desired.folder}:ro"]
        text = _HEAD + "\n".join(lines) + "\n"
        return LaunchPlan(launch_text=text, files=ours.files, marker=ours.marker, problems=ours.problems)

    def unswitch(self, current: str, recorded: str | None) -> str | None:
        """Return None if the file belongs to accelkit, otherwise the unchanged file; see Launch."""
        return recorded if self.is_switched(current) else current

    def is_switched(self, current: str) -> bool:
        """Return whether the file belongs to accelkit."""
        return current.startswith(_HEAD)

    def _own_arguments(self, data_dir: list[str]) -> Iterator[Option]:
        """Yield the arguments that the distribution itself sets and that --config disables."""
        folder = data_dir[-1] if data_dir else f"/var/lib/rancher/{self.distribution}"
        yield _option(f"kubeconfig={folder}/server/cred/scheduler.kubeconfig")
        yield _option("profiling=false")

    def _settings(self, read: Read) -> dict[str, list[str]]:
        """Return the relevant lists, combined from all files except accelkit's file."""
        found: dict[str, list[str]] = {_ARGUMENTS: [], _MOUNTS: [], "data-dir": []}
        for source in self.sources or (f"{self._folder}/config.yaml",):
            content = read(source) if source != self.path else None
            for key, value in _mapping(content, source).items():
                name = key.removesuffix("+")
                if name not in found:
                    continue
                if name != key or PurePosixPath(source).parent.name != "config.yaml.d":
                    found[name] += _strings(value)
                    continue
                if PurePosixPath(source).name > FILE and name != "data-dir":
                    raise ConfigurationError(
                        f"{source} is read after {FILE} and replaces `{name}`", next_step=f"use `{name}+` in {source}"
                    )
                found[name] = _strings(value)
        return found


def _mapping(content: bytes | None, source: str) -> dict[str, Any]:
    try:
        document: Any = load_yaml(content or b"{}")
    except YAMLError as exc:
        raise ConfigurationError(f"{source} is not a single YAML document: {' '.join(str(exc).split())}") from exc
    if document is not None and not isinstance(document, dict):
        raise ConfigurationError(f"{source} is not a mapping")
    return {str(key): value for key, value in (document or {}).items()}


def _strings(value: Any) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else [str(value)]


def _option(argument: str) -> Option:
    name, equals, value = argument.removeprefix("--").partition("=")
    return Option(name.rstrip("+-"), value if equals else None, (argument,))


def _mount(text: str) -> tuple[str, str]:
    host, _, inside = text.partition(":")
    return inside.partition(":")[0] or host, host


def _lies_in(path: str, folder: str) -> bool:
    return PurePosixPath(path).is_relative_to(folder)
