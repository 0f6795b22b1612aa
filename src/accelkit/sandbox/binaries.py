"""The executables of the Kubernetes control plane, found on this machine or built once from accelkit's Go module.

Several paths in `Binaries` may be links to one binary, which selects the component by the link's name. Therefore,
callers must not resolve these links.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from accelkit.errors import SandboxError

__all__ = ["Binaries", "find_binaries", "find_cache_dir", "find_ldflags"]

_REQUIRED = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
_NAMES = (*_REQUIRED, "kubectl")
_MODULE = Path(__file__).parent / "controlplane"
_OLDEST_GO = (1, 24)  # the version in the module's go.mod
_PROGRESS_EVERY = 10.0
_DEADLINE = 60 * 60.0  # for one go command; long enough for slow machines, so only a command that hangs is killed
_TAIL_LINES = 20

_Report = Callable[[str], None]
_Source = Literal["KUBEBUILDER_ASSETS", "PATH", "cache", "build"]


@dataclass(frozen=True)
class Binaries:
    """The absolute paths of the executables, and their source."""

    etcd: Path
    kube_apiserver: Path
    kube_controller_manager: Path
    kube_scheduler: Path
    kubectl: Path | None
    source: _Source


def find_cache_dir(environ: Mapping[str, str]) -> Path:
    """Return the folder for builds below `$ACCELKIT_CACHE`, `$XDG_CACHE_HOME/accelkit` or `~/.cache/accelkit`."""
    if own := environ.get("ACCELKIT_CACHE"):
        return Path(own) / "controlplane"
    if xdg := environ.get("XDG_CACHE_HOME"):
        return Path(xdg) / "accelkit" / "controlplane"
    return Path(environ.get("HOME") or Path.home()) / ".cache" / "accelkit" / "controlplane"


def find_binaries(environ: Mapping[str, str], *, cache_dir: Path, report: Callable[[str], None]) -> Binaries:
    """Return all four components from one source: `KUBEBUILDER_ASSETS`, `PATH`, an earlier build, or a new build.

    Components from different sources are never mixed, because their versions could differ. The exception is kubectl,
    which is compatible with other versions. If `KUBEBUILDER_ASSETS` does not contain kubectl, kubectl from `PATH` is
    used.

    Args:
        environ: the environment variables, which are also passed to `go`.
        cache_dir: the folder for builds, with a subfolder for each version of the Go module. The folder is created if
            it does not exist.
        report: a callback that receives each progress message, in the caller's thread.

    Raises:
        SandboxError: no binaries were found, and they cannot be built, because Go is missing or too old, Go failed or
            timed out, or `cache_dir` is not writable.
    """
    on_path = _find_executables(environ.get("PATH", ""))
    if assets := environ.get("KUBEBUILDER_ASSETS"):
        found = _find_executables(assets)
        missing = [name for name in _REQUIRED if name not in found]
        if not missing:
            return _choose_binaries(on_path | found, "KUBEBUILDER_ASSETS")
        report(f"KUBEBUILDER_ASSETS={assets} does not contain {', '.join(missing)}: searching PATH and earlier builds")
    if on_path.keys() >= set(_REQUIRED):
        return _choose_binaries(on_path, "PATH")

    # The same bytes are hashed and built, so the name of the folder always matches its content.
    sources = {name: (_MODULE / name).read_bytes() for name in ("go.sum", "main.go", "go.mod")}
    target = cache_dir.absolute() / hashlib.sha256(b"".join(sources.values())).hexdigest()[:16]
    source: _Source = "cache"
    if not _is_built(target):
        go = _find_go(environ)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with _lock(target.with_suffix(".lock"), report):
                if not _is_built(target):
                    _build(target, sources, go, environ, report)
                    source = "build"
        except OSError as error:
            message = f"cannot build the Kubernetes control plane in {cache_dir}: {error}"
            raise SandboxError(message, next_step="set ACCELKIT_CACHE to a writable folder with space") from error
    return _choose_binaries(_find_executables(str(target)), source)


def _find_executables(search_path: str) -> dict[str, Path]:
    found = {name: shutil.which(name, path=search_path) for name in _NAMES}
    return {name: Path(where).absolute() for name, where in found.items() if where}


def _choose_binaries(found: Mapping[str, Path], source: _Source) -> Binaries:
    etcd, apiserver, controller_manager, scheduler = (found[name] for name in _REQUIRED)
    return Binaries(etcd, apiserver, controller_manager, scheduler, found.get("kubectl"), source)


def _is_built(target: Path) -> bool:
    return len(_find_executables(str(target))) == len(_NAMES)


def _find_go(environ: Mapping[str, str]) -> str:
    """Return the path of a `go` command that is new enough; raise SandboxError if none is found."""
    found = ""
    if go := shutil.which("go", path=environ.get("PATH", "")):
        # Run in /, so that a go.mod file in the current folder cannot select a different toolchain.
        answer = subprocess.run([go, "version"], env=environ, cwd="/", capture_output=True, text=True, check=False)
        version = re.search(r"\bgo(\d+)\.(\d+)", answer.stdout)
        if version and (int(version[1]), int(version[2])) >= _OLDEST_GO:
            return go
        found = f" ({go} is {version[0] if version else 'of unknown version'})"
    raise SandboxError(
        "cannot find the binaries of the Kubernetes control plane",
        next_step=f"set KUBEBUILDER_ASSETS to a folder with {', '.join(_REQUIRED[:-1])} and {_REQUIRED[-1]}, "
        f"or install Go {'.'.join(map(str, _OLDEST_GO))} or newer (https://go.dev/dl) so that they can be built{found}",
    )


@contextlib.contextmanager
def _lock(path: Path, report: _Report) -> Iterator[None]:
    """Hold a lock on a file. The file is not deleted, because another process may be waiting for its lock."""
    with path.open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("another process is building the Kubernetes control plane: waiting for it to finish")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(target: Path, sources: Mapping[str, bytes], go: str, environ: Mapping[str, str], report: _Report) -> None:
    """Create `target` atomically, with the binary and a link for each component. The caller holds the lock."""
    for leftover in (target, *target.parent.glob(f".{target.name}-*")):
        shutil.rmtree(leftover, ignore_errors=True)
    log = target.with_suffix(".log")
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as work:
        # Build a copy, because the installed package may be read-only, and `go` may rewrite files of the module.
        module, scratch, result = (Path(work, part) for part in ("module", "scratch", "result"))
        for folder in (module, scratch, result):
            folder.mkdir()
        for file, content in sources.items():
            (module / file).write_bytes(content)
        # GOWORK: ignore the user's Go workspace. GOTMPDIR: `go` does not delete its temporary files if it is killed.
        settings = {"CGO_ENABLED": "0", "GO111MODULE": "on", "GOWORK": "off", "GOTMPDIR": str(scratch)}
        run = functools.partial(_run_go, environ={**environ, **settings}, log=log, report=report)

        version = re.findall(r"k8s\.io/kubernetes (v[\d.]+)", sources["go.mod"].decode())[0]
        report(f"building the Kubernetes {version} control plane: the first build takes 5 to 15 minutes")
        in_module = [go, "-C", str(module)]
        run([*in_module, "mod", "download"], doing="downloading Go modules")
        packages = run([*in_module, "list", "-mod=readonly", "-deps", "."], doing="listing Go packages")
        flags = ["-mod=readonly", "-trimpath", "-buildvcs=false", "-v", "-ldflags", find_ldflags(version)]
        compilation = [*in_module, "build", *flags, "-o", str(result / "controlplane"), "."]
        run(compilation, doing="compiling", packages=packages)
        for name in _NAMES:
            (result / name).symlink_to("controlplane")
        result.rename(target)
    log.unlink()
    report(f"built the Kubernetes {version} control plane in {time.monotonic() - start:.0f} s: {target}")


def find_ldflags(version: str) -> str:
    """Return the linker flags that set a Kubernetes version, such as v1.34.4, as the Kubernetes build scripts do."""
    major, minor, _ = version.removeprefix("v").split(".")
    # A Go module does not contain its Git commit. The default, a placeholder, would appear in User-Agent headers.
    stamp = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean", "gitCommit": ""}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(["-s -w", *(f"-X {package}.{key}={stamp[key]}" for package in packages for key in stamp)])


def _run_go(
    command: list[str], *, doing: str, environ: Mapping[str, str], log: Path, report: _Report, packages: int = 0
) -> int:
    """Run one `go` command and write its output to `log`; return the number of output lines.

    If `packages` is set, progress messages contain the number of compiled packages, because `go build -v` prints one
    line for each package. `go build -v` does not print packages from Go's build cache. Therefore, the messages contain
    "up to".

    Raises:
        SandboxError: the command failed or timed out.
    """
    start = time.monotonic()
    outcome: str | None = None
    with log.open("wb") as output:
        # Start a separate session, so that the compilers can be killed together with `go`.
        process = subprocess.Popen(
            command, env=environ, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    try:
        while outcome is None:
            try:
                outcome = f"exited with status {process.wait(_PROGRESS_EVERY)}"
            except subprocess.TimeoutExpired:
                elapsed = time.monotonic() - start
                if elapsed > _DEADLINE:
                    outcome = f"did not exit within {_DEADLINE / 60:.0f} minutes"
                count = f", {len(log.read_bytes().splitlines())} of up to {packages} packages" if packages else ""
                report(f"{doing}: {elapsed:.0f} s{count}")
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    lines = log.read_text(errors="replace").splitlines()
    if process.returncode != 0:
        tail = "\n  ".join(lines[-_TAIL_LINES:])
        raise SandboxError(f"{doing} for the Kubernetes control plane {outcome}. The end of {log}:\n  {tail}")
    return len(lines)
