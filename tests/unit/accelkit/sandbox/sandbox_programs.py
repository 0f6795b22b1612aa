"""Programs in the place of the control plane's, and of accelkit's own command."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from accelkit.sandbox.binaries import Binaries

T = TypeVar("T")

NAMES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
# Tells how it was called, then stays.
STAYS = '#!/bin/sh\nprintf "%s\\n" "$@"\nexec sleep 1000\n'


def write_programs(folder: Path, **texts: str) -> Binaries:
    """Write the control plane's executables; `texts` has other scripts for some, by name with underscores."""
    folder.mkdir(parents=True)
    for name in NAMES:
        path = folder / name
        path.write_text(texts.get(name.replace("-", "_"), STAYS))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    etcd, apiserver, manager, scheduler = (folder / name for name in NAMES)
    return Binaries(etcd, apiserver, manager, scheduler, None, "KUBEBUILDER_ASSETS")


def write_accelkit(folder: Path, text: str) -> dict[str, str]:
    """Put a program in the place of accelkit's command; return the environment that finds it."""
    package = folder / "accelkit"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(text)
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}


def until(look: Callable[[], T], seconds: float = 30) -> T:
    """The first true thing seen; files and processes tell nobody that they change."""
    deadline = time.monotonic() + seconds
    while not (seen := look()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return seen
