"""Programs in the place of the control plane's."""

from __future__ import annotations

import stat
from pathlib import Path

from accelkit.sandbox.binaries import Binaries

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
