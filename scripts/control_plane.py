"""Build the control plane of another Kubernetes version than the sandbox's own, for tests that run on it.

    python scripts/control_plane.py 1.37.2 /tmp/kubernetes-1.37
    KUBEBUILDER_ASSETS=/tmp/kubernetes-1.37 pytest tests/integration/test_install.py

Like the sandbox's own control plane it is made of Go modules alone. The program is the same; the module that names the
versions is derived from the one that Kubernetes publishes. kubeadm is built beside it, whose manifests a test reads. A
Go as new as that module asks for must be in PATH.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from accelkit.sandbox.binaries import find_ldflags

PROGRAM = Path(__file__).parents[1] / "src/accelkit/sandbox/controlplane/main.go"
MODULE = "controlplane"
COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
DEADLINE = 3 * 60 * 60.0


def go(folder: Path, *arguments: str) -> str:
    """Run `go` in a folder; return what it prints."""
    environ = {**os.environ, "CGO_ENABLED": "0", "GO111MODULE": "on", "GOWORK": "off", "GOFLAGS": ""}
    done = subprocess.run(
        ["go", *arguments], cwd=folder, env=environ, stdout=subprocess.PIPE, text=True, check=True, timeout=DEADLINE
    )
    return done.stdout


def write_module(folder: Path, version: str) -> None:
    """Write go.mod and main.go, with what Kubernetes' own module requires and its staged modules as published."""
    (folder / "main.go").write_bytes(PROGRAM.read_bytes())
    (folder / "go.mod").write_text(f"module {MODULE}\n")
    published = Path(json.loads(go(folder, "mod", "download", "-json", f"k8s.io/kubernetes@v{version}"))["GoMod"])
    described = json.loads(go(folder, "mod", "edit", "-json", str(published)))
    staged = [each["Old"]["Path"] for each in described["Replace"] if each["New"]["Path"].startswith("./staging/")]
    release = "v0" + version[version.index(".") :]
    lines = [f"module {MODULE}", f"go {described['Go']}", f"require k8s.io/kubernetes v{version}"]
    lines += [
        f"require {each['Path']} {each['Version']}" for each in described["Require"] if each["Path"] not in staged
    ]
    lines += [f"replace {name} => {name} {release}" for name in staged]
    (folder / "go.mod").write_text("\n".join(lines) + "\n")
    go(folder, "mod", "tidy")


def main() -> int:
    """Build into the named folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version", help="a release of Kubernetes, as 1.37.2")
    parser.add_argument("folder", type=Path, help="gets the programs")
    options = parser.parse_args()
    target = options.folder.absolute()
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target) as scratch:
        folder = Path(scratch)
        write_module(folder, options.version)
        ldflags = find_ldflags(f"v{options.version}")
        build = ("build", "-mod=mod", "-trimpath", "-buildvcs=false", "-ldflags", ldflags, "-o", str(target))
        go(folder, *build, "k8s.io/kubernetes/cmd/kubeadm")
        go(folder, *build, ".")
    for name in COMPONENTS:
        (target / name).unlink(missing_ok=True)
        (target / name).symlink_to(MODULE)
    print(f"Kubernetes {options.version}: {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
