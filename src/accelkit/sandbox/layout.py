"""The folders and files of a sandbox, and the facts for other programs in `sandbox.json`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import msgspec

from accelkit.errors import SandboxError

FACTS_VERSION: Final = 1
DEFAULT_EXTENDER_PORT: Final = 32766
# Set in the environment of every process of a sandbox, so that `down` always finds all of them.
ROOT_VARIABLE: Final = "ACCELKIT_SANDBOX_ROOT"


class SandboxOptions(msgspec.Struct, frozen=True):
    """The options of `accelkit sandbox up`, stored in `options.json` for the processes that it starts."""

    extender_port: int = DEFAULT_EXTENDER_PORT
    plugin_grace: float = 10.0
    timeout: float = 180.0
    apiserver_args: tuple[str, ...] = ()


SandboxState = Literal["starting", "ready", "failed"]


class Facts(msgspec.Struct):
    """The facts of a sandbox for other programs. Paths are absolute; `processes` maps names to process IDs."""

    image: str
    extender_port: int
    supervisor_pid: int
    version: int = FACTS_VERSION
    state: SandboxState = "starting"
    message: str = ""
    binaries: str = ""
    kubectl: str = ""
    kubeconfig: str = ""
    api_server: str = ""
    etcd: str = ""
    scheduler_config: str = ""
    scheduler_state: str = ""
    scheduler_url: str = ""
    extender_url: str = ""
    run_folder: str = ""
    nodes: list[str] = []
    processes: dict[str, int] = {}


@dataclass(frozen=True)
class SandboxPaths:
    """The folders and files below the sandbox's root."""

    root: Path

    @property
    def facts(self) -> Path:
        """The facts for other programs."""
        return self.root / "sandbox.json"

    @property
    def options(self) -> Path:
        """The options of `up`."""
        return self.root / "options.json"

    @property
    def nodes_file(self) -> Path:
        """The copy of the user's nodes file; missing if the default nodes are used."""
        return self.root / "nodes.yaml"

    @property
    def nodes(self) -> Path:
        """The folder with the roots of all nodes. Processes of a node access its root through the run folder."""
        return self.root / "nodes"

    @property
    def pki(self) -> Path:
        """Certificates and keys."""
        return self.root / "pki"

    @property
    def logs(self) -> Path:
        """The folder with the log of each process."""
        return self.root / "logs"

    @property
    def scheduler_config(self) -> Path:
        """The configuration of kube-scheduler. The supervisor restarts kube-scheduler when this file changes."""
        return self.root / "kube-scheduler" / "config.yaml"

    @property
    def scheduler_state(self) -> Path:
        """The state of kube-scheduler, with the digest of its current configuration."""
        return self.root / "kube-scheduler" / "state.json"

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders that `prepare` creates. They identify a sandbox whose files are missing."""
        return self.pki, self.logs, self.nodes, self.scheduler_config.parent

    def build_kubeconfig_path(self, user: str) -> Path:
        """Return the path of a user's kubeconfig."""
        return self.root / f"{user}.kubeconfig"

    def read_facts(self) -> Facts | None:
        """Return the facts; None if they are missing or unreadable."""
        try:
            return msgspec.json.decode(self.facts.read_bytes(), type=Facts)
        except (OSError, msgspec.MsgspecError):
            return None

    def read_options(self) -> SandboxOptions:
        """Return the options of `up`.

        Raises:
            SandboxError: the folder does not contain a sandbox.
        """
        try:
            return msgspec.json.decode(self.options.read_bytes(), type=SandboxOptions)
        except (OSError, msgspec.MsgspecError) as exc:
            raise SandboxError(f"no sandbox exists in {self.root}", next_step="run `accelkit sandbox up`") from exc


def find_default_root(environ: Mapping[str, str]) -> Path:
    """Return `$ACCELKIT_SANDBOX`, or `$XDG_STATE_HOME/accelkit/sandbox`, or `~/.local/state/accelkit/sandbox`."""
    if own := environ.get("ACCELKIT_SANDBOX"):
        return Path(own).absolute()
    state = environ.get("XDG_STATE_HOME")
    base = Path(state) if state else Path(environ.get("HOME") or Path.home()) / ".local" / "state"
    return base / "accelkit" / "sandbox"


def check_owner(paths: SandboxPaths) -> None:
    """Check that the root does not exist or belongs to the current user.

    Raises:
        SandboxError: the root belongs to another user, or its owner cannot be read.
    """
    try:
        owner = paths.root.stat().st_uid
    except FileNotFoundError:
        return
    except OSError as exc:
        raise SandboxError(
            f"cannot use {paths.root}: {exc.strerror}", next_step="set ACCELKIT_SANDBOX to another folder"
        ) from exc
    if owner != os.geteuid():
        raise SandboxError(
            f"cannot use {paths.root}: it belongs to another user", next_step="set ACCELKIT_SANDBOX to your own folder"
        )


def prepare(paths: SandboxPaths) -> None:
    """Create the root folder and the folders below it, with access for their owner only.

    Raises:
        SandboxError: the root belongs to another user, or cannot be created.
    """
    try:
        paths.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_owner(paths)
        paths.root.chmod(0o700)
        for folder in paths.folders:
            folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as exc:
        raise SandboxError(
            f"cannot use {paths.root}: {exc.strerror}", next_step="set ACCELKIT_SANDBOX to another folder"
        ) from exc


def write_atomically(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Replace a file atomically: a reader gets either the old or the new content."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
