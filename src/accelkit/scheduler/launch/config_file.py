"""Launch of kube-scheduler with a configuration that is edited in place; a change restarts kube-scheduler."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from accelkit.errors import ConfigurationError
from accelkit.scheduler.configuration.component_config import (
    add_extender,
    has_extender,
    read_api_version,
    remove_extender,
)
from accelkit.scheduler.configuration.versions import check_readable, parse_minor
from accelkit.scheduler.launch.plan import DesiredSettings, LaunchPlan, Read
from accelkit.scheduler.launch.replacement import add_credentials


@dataclass(frozen=True)
class ConfigFile:
    """A KubeSchedulerConfiguration at `path`. Implements Launch.

    Attributes:
        path: the path of the configuration, which is the launch file.
        url_prefix: the URL of the extender, which identifies accelkit's entry if its resources have other names.
    """

    path: str
    url_prefix: str | None = None

    def plan(self, current: str | None, recorded: str | None, read: Read, desired: DesiredSettings) -> LaunchPlan:  # noqa: ARG002
        """Return the plan, whose marker is the SHA-256 of the configuration; see Launch."""
        if current is None:
            raise ConfigurationError(
                f"cannot read {self.path}: it does not exist",
                next_step="specify the path in kube-scheduler's option --config",
            )
        check_readable(read_api_version(current), parse_minor(desired.kubernetes_version))
        extender, files = add_credentials(desired, owner=None)
        # Update the entry in place, because removing and inserting it would move it behind other entries.
        text = add_extender(current, extender)
        return LaunchPlan(launch_text=text, files=files, marker=hashlib.sha256(text.encode()).hexdigest())

    def unswitch(self, current: str, recorded: str | None) -> str:  # noqa: ARG002
        """Return the configuration without accelkit's entry; see Launch."""
        return remove_extender(current, self.url_prefix)

    def is_switched(self, current: str) -> bool:
        """Return whether the configuration contains accelkit's entry."""
        return has_extender(current, self.url_prefix)
