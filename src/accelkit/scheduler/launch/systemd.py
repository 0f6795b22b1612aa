"""Launch of kube-scheduler as a systemd service: an accelkit drop-in sets a different ExecStart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from accelkit.errors import ConfigurationError
from accelkit.scheduler.configuration.command_line import find_program, parse
from accelkit.scheduler.launch.plan import DesiredSettings, LaunchPlan, Read
from accelkit.scheduler.launch.replacement import make_replacement

UNIT: Final = "kube-scheduler.service"
DROP_IN: Final = "50-accelkit.conf"
_FOLDERS: Final = (
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
)
_HEAD: Final = "# Written by accelkit, which takes it away again.\n"
_WORD: Final = re.compile(r"""(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\\.|[^\s"'\\])+""")
_QUOTED: Final = re.compile(r"""\\(.)|["']""")
_VARIABLE: Final = re.compile(r"(?<!\$)\$(?:\$\$)*(?!\$)")


@dataclass(frozen=True)
class SystemdUnit:
    """A systemd unit. Implements Launch.

    Attributes:
        unit: the name of the unit.
        sources: the unit file and the other drop-ins, as printed by `systemctl show -p FragmentPath,DropInPaths`. If
            empty, the unit file is searched for in systemd's folders, and other drop-ins are assumed not to set
            ExecStart.
    """

    unit: str = UNIT
    sources: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """The path of the drop-in."""
        return f"/etc/systemd/system/{self.unit}.d/{DROP_IN}"

    def plan(self, current: str | None, recorded: str | None, read: Read, desired: DesiredSettings) -> LaunchPlan:
        """Return the plan; see Launch."""
        if (current is not None and not self.is_switched(current)) or recorded is not None:
            raise ConfigurationError(
                f"cannot write {self.path}: it exists and does not belong to accelkit", next_step="rename it"
            )
        start, user = self._service(read)
        tokens = _WORD.findall(start)
        words = [_QUOTED.sub(lambda match: match[1] or "", token) for token in tokens]
        self._check(words)

        def open_file(path: str) -> str:
            content = read(path)
            if content is None:
                raise ConfigurationError(f"kube-scheduler is configured with {path}, but the host has no such file")
            return content.decode()

        line = parse(words)
        ours = make_replacement(line.options, desired, open_file=open_file, read=read, owner=_user_id(user, read))
        # The original spelling of the words is preserved, because systemd interprets the quotes and specifiers in them.
        spelled = iter(tokens)
        kept = [next(spelled) for _ in line.program]
        for option in line.options:
            spelling = [next(spelled) for _ in option.words]
            kept += [] if option.name in ours.replaced else spelling
        command = " \\\n  ".join([*kept, ours.marker])
        text = f"{_HEAD}[Service]\nExecStart=\nExecStart={command}\n"
        return LaunchPlan(launch_text=text, files=ours.files, marker=ours.marker, problems=ours.problems)

    def unswitch(self, current: str, recorded: str | None) -> str | None:
        """Return None if the drop-in belongs to accelkit, otherwise the unchanged file; see Launch."""
        return recorded if self.is_switched(current) else current

    def is_switched(self, current: str) -> bool:
        """Return whether the drop-in belongs to accelkit."""
        return current.startswith(_HEAD)

    def _service(self, read: Read) -> tuple[str, str]:
        """Return the ExecStart that applies without accelkit's drop-in, and the user of the service."""
        sources = [source for source in self.sources if source != self.path] or [
            next((f"{folder}/{self.unit}" for folder in _FOLDERS if read(f"{folder}/{self.unit}") is not None), "")
        ]
        starts: list[str] = []
        user = ""
        for source in sources:
            content = read(source) if source else None
            if content is None:
                raise ConfigurationError(
                    f"systemd has no unit file {source or self.unit} on this host",
                    next_step="check how kube-scheduler is started",
                )
            for key, value in _settings(content.decode()):
                if key == "User":
                    user = value
                elif key == "ExecStart":
                    if PurePosixPath(source).name > DROP_IN and source != sources[0]:
                        raise ConfigurationError(
                            f"the drop-in {source} sets ExecStart after {DROP_IN}", next_step="rename it to sort first"
                        )
                    starts = [*starts, value] if value else []
        if len(starts) != 1:
            raise ConfigurationError(f"{self.unit} has {len(starts)} ExecStart lines, but exactly one is supported")
        return starts[0], user

    def _check(self, words: list[str]) -> None:
        if find_program(words) is None:
            raise ConfigurationError(f"ExecStart of {self.unit} does not run kube-scheduler")
        if any(_VARIABLE.search(word) for word in words):
            raise ConfigurationError(
                f"ExecStart of {self.unit} takes options from environment variables, which accelkit does not edit",
                next_step="write the options directly in ExecStart",
            )


def _settings(text: str) -> Iterator[tuple[str, str]]:
    """Yield the settings of the section [Service], with continuation lines joined."""
    section = ""
    pending = ""
    for line in text.splitlines():
        if line.lstrip().startswith(("#", ";")):
            continue
        joined = pending + line
        if joined.endswith("\\"):
            pending = joined[:-1] + " "
            continue
        pending = ""
        stripped = joined.strip()
        if stripped.startswith("["):
            section = stripped
        elif section == "[Service]" and "=" in stripped:
            key, _, value = stripped.partition("=")
            yield key.strip(), value.strip()


def _user_id(user: str, read: Read) -> int | None:
    if not user or user == "root":
        return None
    if user.isdecimal():
        return int(user)
    for line in (read("/etc/passwd") or b"").decode(errors="replace").splitlines():
        name, _, rest = line.partition(":")
        if name == user:
            return int(rest.split(":")[1])
    raise ConfigurationError(f"kube-scheduler runs as the user {user}, who is missing from /etc/passwd")
