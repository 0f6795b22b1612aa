"""Launch of kube-scheduler as a static pod of the kubelet, as in kubeadm; the manifest is the launch file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from accelkit.errors import ConfigurationError
from accelkit.model.keys import FORMER_DNS_POLICY_ANNOTATION
from accelkit.scheduler.configuration.command_line import SOURCES, CommandLine, Option
from accelkit.scheduler.launch.name_resolution import check_name_resolution
from accelkit.scheduler.launch.plan import DesiredSettings, LaunchPlan, Read
from accelkit.scheduler.launch.pod_manifest import PodManifest
from accelkit.scheduler.launch.replacement import Replacement, make_replacement

MANIFEST = "/etc/kubernetes/manifests/kube-scheduler.yaml"


@dataclass(frozen=True)
class StaticPod:
    """A static pod whose manifest is at `path`. Implements Launch."""

    path: str = MANIFEST

    def plan(self, current: str | None, recorded: str | None, read: Read, desired: DesiredSettings) -> LaunchPlan:
        """Return the plan; see Launch."""
        if current is None:
            raise ConfigurationError(
                f"cannot read the manifest {self.path}: it does not exist",
                next_step="specify the control-plane hosts, or the launch kind of their kube-scheduler",
            )
        pod = PodManifest(self.unswitch(current, recorded), self.path)

        def open_file(path: str) -> str:
            host_path = pod.find_host_path(path)
            content = read(host_path)
            if content is None:
                raise ConfigurationError(f"kube-scheduler is configured with {path}, but the host has no {host_path}")
            return content.decode()

        options = pod.list_options()
        ours = make_replacement(options, desired, open_file=open_file, read=read, owner=pod.run_as_user)
        problems = check_name_resolution(pod, options, desired, read)
        _switch(pod, ours)
        pod.add_volume(desired.folder)
        if desired.dns_policy:
            pod.set_dns_policy(desired.dns_policy)
        text = current if pod.is_equivalent_to(PodManifest(current, self.path)) else pod.render()
        return LaunchPlan(launch_text=text, files=ours.files, marker=ours.marker, problems=(*ours.problems, *problems))

    def unswitch(self, current: str, recorded: str | None) -> str:
        """Return the manifest without accelkit's changes; see Launch."""
        pod = PodManifest(current, self.path)
        if not _is_switched(pod):
            return current
        former = None if recorded is None else PodManifest(recorded, self.path)
        former_lines = {} if former is None else former.list_command_lines()
        for holder, line in pod.list_command_lines().items():
            pod.set_command_line(holder, rejoin(line, former_lines.get(holder), lambda option: option.is_ours))
        pod.take_volume(former)
        pod.take_dns_policy(former)
        # Return the recorded text if only the layout differs, such as the column of a comment after a value.
        if former is not None and pod.is_equivalent_to(former) and pod.comments == former.comments:
            return former.source
        return pod.render()

    def is_switched(self, current: str) -> bool:
        """Return whether the manifest contains accelkit's changes."""
        return _is_switched(PodManifest(current, self.path))


def _is_switched(pod: PodManifest) -> bool:
    annotations = (pod.root.get("metadata") or {}).get("annotations") or {}
    return (
        pod.has_volume
        or FORMER_DNS_POLICY_ANNOTATION in annotations
        or any(option.is_ours for option in pod.list_options())
    )


def _switch(pod: PodManifest, ours: Replacement) -> None:
    lines = pod.list_command_lines()
    # The new option is inserted at the position of the options that it replaces, so that comments remain next to the
    # right options.
    matching = [holder for holder, line in lines.items() if any(each.name in ours.replaced for each in line.options)]
    chosen = matching[-1] if matching else list(lines)[-1]
    for holder, line in lines.items():
        if holder == chosen:
            pod.set_command_line(holder, line.replacing(ours.replaced, ours.name, ours.value))
        else:
            pod.set_command_line(holder, line.without(lambda option: option.name in ours.replaced))


def rejoin(line: CommandLine, former: CommandLine | None, drop: Callable[[Option], bool]) -> CommandLine:
    """Return the command line without some options, and with the options from `former` that were replaced."""
    if not any(drop(option) for option in line.options):
        return line
    rest = line.without(drop)
    if former is None:
        return rest
    present = {option.name for option in rest.options}
    return rest.with_those_of(former, (name for name in SOURCES if name not in present))
