"""The folders and files of a sandbox, and the facts in `sandbox.json`, which other programs can read."""

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
# The environment variable that every process of a sandbox has, so that `down` can find all processes.
ROOT_VARIABLE: Final = "ACCELKIT_SANDBOX_ROOT"


class SandboxOptions(msgspec.Struct, frozen=True):
    """The options of `accelkit sandbox up`. They are stored in `options.json` for the processes of the sandbox."""

    extender_port: int = DEFAULT_EXTENDER_PORT
    plugin_grace: float = 10.0
    timeout: float = 180.0
    apiserver_args: tuple[str, ...] = ()


SandboxState = Literal["starting", "ready", "failed"]


class Facts(msgspec.Struct):
    """The facts about a sandbox for other programs. All paths are absolute. `processes` maps names to process IDs."""

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
    """The folders and files below the root folder of a sandbox."""

    root: Path

    @property
    def facts(self) -> Path:
        """The file with the facts for other programs."""
        return self.root / "sandbox.json"

    @property
    def options(self) -> Path:
        """The file with the options of `up`."""
        return self.root / "options.json"

    @property
    def nodes_file(self) -> Path:
        """The copy of the user's nodes file. It does not exist if the default nodes are used."""
        return self.root / "nodes.yaml"

    @property
    def nodes(self) -> Path:
        """The folder with the root folders of all nodes. Processes of a node access it through the run folder."""
        return self.root / "nodes"

    @property
    def pki(self) -> Path:
        """The folder with the certificates and keys."""
        return self.root / "pki"

    @property
    def logs(self) -> Path:
        """The folder with the logs of all processes."""
        return self.root / "logs"

    @property
    def scheduler_config(self) -> Path:
        """The configuration file of kube-scheduler. The supervisor restarts kube-scheduler when this file changes."""
        return self.root / "kube-scheduler" / "config.yaml"

    @property
    def scheduler_state(self) -> Path:
        """The file with the state of kube-scheduler, including the digest of its current configuration."""
        return self.root / "kube-scheduler" / "state.json"

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders that `prepare` creates. They identify the folder of a sandbox if its files are missing."""
        return self.pki, self.logs, self.nodes, self.scheduler_config.parent

    def build_kubeconfig_path(self, user: str) -> Path:
        """Return the path of the kubeconfig file for a user."""
        return self.root / f"{user}.kubeconfig"

    def read_facts(self) -> Facts | None:
        """Return the facts; None if the file is missing or unreadable."""
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
    """Check that the root folder does not exist or belongs to the current user.

    Raises:
        SandboxError: the root folder belongs to another user, or its owner cannot be read.
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
    """Create the root folder and the folders below it, with access for only their owner.

    Raises:
        SandboxError: the root folder belongs to another user, or cannot be created.
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
    """Replace a file atomically. A reader gets either the old content or the new content."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
