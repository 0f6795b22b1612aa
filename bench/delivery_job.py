"""What a kernel cache's delivery is compared with: a Job that verifies, copies and unpacks the image on each node."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

SCRIPTS = Path(__file__).parents[1] / "scripts"
IMAGE = "accelkit.io/bench-delivery:1"
# Beside what a minimal Debian has: tar and gzip.
PACKAGES = "skopeo,ca-certificates"
SECONDS = 900
STEPS = """\
set -eu
cosign verify --key /keys/cosign.pub --insecure-ignore-tlog=true \\
  --allow-http-registry --allow-insecure-registry "$IMAGE"
skopeo --insecure-policy copy --src-tls-verify=false "docker://$IMAGE" dir:/scratch/pulled
layer=$(ls -S /scratch/pulled | head -n 1)
mkdir /scratch/cache
tar -xzf "/scratch/pulled/$layer" -C /scratch/cache
"""


def run(*command: str | Path, stdin: bytes | None = None) -> str:
    """Run a command; return what it prints, or end the benchmark."""
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=SECONDS, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command[:4]))} failed: {done.stderr.decode(errors='replace')[-800:]}")
    return done.stdout.decode()


def build_image(cluster: str) -> None:
    """Have the image of the Job on all nodes of a cluster made by kind: Debian's skopeo and the cosign on PATH."""
    present = subprocess.run(["docker", "image", "inspect", IMAGE], capture_output=True, timeout=SECONDS, check=False)
    if present.returncode:
        sys.path.insert(0, str(SCRIPTS))
        base = importlib.import_module("base_image")
        archive = Path(base.CACHE) / f"delivery-{base.SUITE}.tar"
        if not archive.is_file():
            make_root(archive, base.SUITE, base.MIRROR, base.DROPPED)
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(archive, Path(folder) / "root.tar")
            shutil.copy(shutil.which("cosign") or "", Path(folder) / "cosign")
            text = "FROM scratch\nADD root.tar /\nCOPY cosign /usr/local/bin/cosign\n"
            (Path(folder) / "Dockerfile").write_text(text)
            # The builder that every release of Docker has.
            run("env", "DOCKER_BUILDKIT=0", "docker", "build", "--quiet", "--tag", IMAGE, folder)
    run("kind", "load", "docker-image", "--name", cluster, IMAGE)


def make_root(archive: Path, suite: str, mirror: str, dropped: Iterable[str]) -> None:
    """Put a minimal Debian with skopeo into an archive: its packages are unpacked, and none is configured.

    The scripts of one that skopeo brings along fail in a root without a shell of its own, and nothing here needs them.
    """
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        root = Path(folder) / "root"
        options = ("--foreign", "--variant=minbase", f"--include={PACKAGES}")
        run("debootstrap", *options, suite, root, mirror)
        for package in sorted((root / "var/cache/apt/archives").glob("*.deb")):
            run("dpkg-deb", "--extract", package, root)
        for place in (*dropped, "debootstrap"):
            shutil.rmtree(root / place, ignore_errors=True)
        for path, mode in {"tmp": 0o1777, "scratch": 0o755, "keys": 0o755}.items():
            (root / path).mkdir(exist_ok=True)
            (root / path).chmod(mode)
        unfinished = Path(folder) / "root.tar"
        run("tar", "--create", "--numeric-owner", f"--file={unfinished}", f"--directory={root}", ".")
        unfinished.rename(archive)


def build_job(name: str, image: str, nodes: list[str]) -> dict[str, object]:
    """Return a Job of one pod on each node, which ends when each has unpacked the image."""
    labels = {"bench.accelkit.io/job": name}
    apart = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
    here = [{"key": "kubernetes.io/hostname", "operator": "In", "values": nodes}]
    container = {
        "name": "deliver",
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", STEPS],
        "env": [{"name": "IMAGE", "value": image}, {"name": "HOME", "value": "/scratch"}],
        "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}, {"name": "keys", "mountPath": "/keys"}],
    }
    spec = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "tolerations": [{"operator": "Exists"}],
        "affinity": {
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]},
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": here}]}
            },
        },
        "containers": [container],
        "volumes": [{"name": "scratch", "emptyDir": {}}, {"name": "keys", "configMap": {"name": "bench-keys"}}],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "completions": len(nodes),
            "parallelism": len(nodes),
            "backoffLimit": 0,
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }
