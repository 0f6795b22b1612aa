"""Manifest of the static pod that runs kube-scheduler, with methods for accelkit's changes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

from accelkit.errors import ConfigurationError
from accelkit.model.keys import FORMER_DNS_POLICY_ANNOTATION
from accelkit.scheduler.configuration.command_line import PROGRAM, CommandLine, Option, find_program, parse
from accelkit.scheduler.configuration.document import Document

VOLUME: Final = "accelkit"
_HOLDERS: Final = ("command", "args")


class PodManifest:
    """A manifest that can be edited.

    Args:
        text: the manifest.
        path: the path of the manifest, for error messages.

    Raises:
        ConfigurationError: the text is not a manifest of a single pod in which one container runs kube-scheduler.
    """

    def __init__(self, text: str, path: str) -> None:
        self.source = text
        self._what = f"the manifest {path}"
        self._document = Document(text, self._what)
        self.root = self._document.root
        spec = self.root.get("spec")
        if self.root.get("kind") != "Pod" or not isinstance(spec, dict):
            raise ConfigurationError(
                f"{self._what} is of kind {self.root.get('kind')!r}, not of kind 'Pod'",
                next_step="specify the path of kube-scheduler's static-pod manifest",
            )
        self.spec: dict[str, Any] = spec
        self.container = self._scheduler_container()

    def _scheduler_container(self) -> dict[str, Any]:
        containers = self.spec.get("containers")
        if not isinstance(containers, list) or not all(isinstance(each, dict) for each in containers):
            raise ConfigurationError(f"{self._what} has no list of containers")
        for container in containers:
            for holder in _HOLDERS:
                words = container.get(holder) or []
                if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
                    raise ConfigurationError(f"`{holder}` of a container in {self._what} is not a list of strings")
        running = [each for each in containers if find_program(_words(each)) is not None]
        # The entrypoint of an image may contain the program name. In this case, all arguments are options.
        running = running or [c for c in containers if PROGRAM in str(c.get("name")) and _only_options(_words(c))]
        if len(running) != 1:
            found = f"{len(running)} of its {len(containers)} containers do"
            raise ConfigurationError(
                f"exactly one container of {self._what} must run {PROGRAM} in its command, but {found}",
                next_step=f"write `command` as a list that names {PROGRAM}, in one container",
            )
        scheduler: dict[str, Any] = running[0]
        return scheduler

    def list_command_lines(self) -> dict[str, CommandLine]:
        """Return the lists of words with kube-scheduler's options, by key; new options belong in the last list."""
        lines: dict[str, CommandLine] = {}
        named = find_program(_words(self.container)) is None
        for holder in _HOLDERS:
            words = list(self.container.get(holder) or [])
            if named or find_program(words) is not None:
                lines[holder] = parse(words, follows_program=named)
                named = True
        return {holder: line for holder, line in lines.items() if line.words}

    def list_options(self) -> list[Option]:
        """Return kube-scheduler's options in order."""
        return [option for line in self.list_command_lines().values() for option in line.options]

    def set_command_line(self, holder: str, line: CommandLine) -> None:
        """Set the list of words at the key `holder` to `line`."""
        self.container[holder] = line.words

    def find_host_path(self, path: str) -> str:
        """Return the host path of the file at `path` in kube-scheduler's container.

        Raises:
            ConfigurationError: the file is not mounted from the host.
        """
        mounts = [mount for mount in self.container.get("volumeMounts") or [] if _holds(mount.get("mountPath"), path)]
        if not mounts:
            raise ConfigurationError(
                f"kube-scheduler reads {path}, which {self._what} does not mount",
                next_step="mount it from the host",
            )
        mount = max(mounts, key=lambda each: len(str(each["mountPath"])))
        volumes = [each for each in self.spec.get("volumes") or [] if each.get("name") == mount.get("name")]
        if not volumes or not isinstance(volumes[0].get("hostPath"), dict):
            raise ConfigurationError(
                f"kube-scheduler reads {path} from the volume {mount.get('name')!r}, which is not a hostPath",
                next_step="mount it from the host",
            )
        rest = PurePosixPath(path).relative_to(str(mount["mountPath"]))
        return str(PurePosixPath(str(volumes[0]["hostPath"]["path"]), str(mount.get("subPath") or ""), rest))

    @property
    def run_as_user(self) -> int | None:
        """The user that runs kube-scheduler; None if the image determines the user, which is treated as root."""
        for place in (self.container, self.spec):
            context = place.get("securityContext") or {}
            if context.get("runAsUser") is not None:
                return int(context["runAsUser"])
        return None

    @property
    def has_volume(self) -> bool:
        """Whether the manifest contains accelkit's volume."""
        return any(each.get("name") == VOLUME for each in self.spec.get("volumes") or [])

    def add_volume(self, folder: str) -> None:
        """Mount a folder of the host read-only at the same path."""
        volume = {"hostPath": {"path": folder, "type": "Directory"}, "name": VOLUME}
        mount = {"mountPath": folder, "name": VOLUME, "readOnly": True}
        _append(self.spec, "volumes", volume)
        _append(self.container, "volumeMounts", mount)

    def take_volume(self, former: PodManifest | None, names: Collection[str] = (VOLUME,)) -> None:
        """Remove volumes and mounts, by default accelkit's; also remove empty lists that `former` does not have."""
        _take(self.spec, "volumes", names, None if former is None else former.spec)
        _take(self.container, "volumeMounts", names, None if former is None else former.container)

    def set_dns_policy(self, policy: str) -> None:
        """Set the pod's dnsPolicy, and record the previous value."""
        former = str(self.spec.get("dnsPolicy") or "")
        if former == policy:
            return
        metadata = self.root.setdefault("metadata", {})
        annotations = metadata.get("annotations")
        if not isinstance(annotations, dict):
            annotations = metadata["annotations"] = {}
        annotations[FORMER_DNS_POLICY_ANNOTATION] = former
        self.spec["dnsPolicy"] = policy

    def take_dns_policy(self, former: PodManifest | None) -> None:
        """Restore the previous dnsPolicy if accelkit has set the current value."""
        metadata = self.root.get("metadata") or {}
        annotations = metadata.get("annotations") or {}
        policy = annotations.pop(FORMER_DNS_POLICY_ANNOTATION, None)
        if policy is None:
            return
        if policy:
            self.spec["dnsPolicy"] = policy
        else:
            self.spec.pop("dnsPolicy", None)
        kept = former is not None and "annotations" in (former.root.get("metadata") or {})
        if not annotations and not kept:
            del metadata["annotations"]

    def put_back(self, key: str, former: PodManifest) -> None:
        """Set a field of the spec to its value in `former`, or remove it."""
        if key in former.spec:
            self.spec[key] = former.spec[key]
        else:
            self.spec.pop(key, None)

    def render(self) -> str:
        """Return the text of the manifest with all changes."""
        return self._document.render()

    def is_equivalent_to(self, other: PodManifest) -> bool:
        """Return whether two manifests differ only in layout and comments."""
        return self.root == other.root

    @property
    def comments(self) -> list[str]:
        """The sorted comments of the original manifest."""
        return self._document.comments


def _append(parent: dict[str, Any], key: str, item: dict[str, Any]) -> None:
    items = parent.get(key)
    parent[key] = [*(items if isinstance(items, list) else []), item]


def _take(parent: dict[str, Any], key: str, names: Collection[str], former: dict[str, Any] | None) -> None:
    items = parent.get(key) or []
    kept = [item for item in items if item.get("name") not in names]
    if len(kept) < len(items):
        parent[key] = kept
    if key in parent and not kept and (former is None or key not in former):
        del parent[key]


def _words(container: dict[str, Any]) -> list[str]:
    return [word for holder in _HOLDERS for word in container.get(holder) or []]


def _only_options(words: Sequence[str]) -> bool:
    return bool(words) and words[0].startswith("-")


def _holds(folder: Any, path: str) -> bool:
    return isinstance(folder, str) and PurePosixPath(path).is_relative_to(folder)
