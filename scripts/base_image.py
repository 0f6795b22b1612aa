"""Make a base image out of Debian packages, for machines that reach a Debian mirror and no registry.

Needs docker or podman and, the first time, root and debootstrap: its root file system is kept in the cache, so the
second time costs seconds.

Usage: base_image.py [NAME]
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

NAME = "accelkit-base:bookworm"
SUITE = "bookworm"
MIRROR = os.environ.get("DEBIAN_MIRROR", "http://deb.debian.org/debian")
PACKAGES = "python3,python3-venv,ca-certificates"
# Not needed to run anything, and most of the size.
DROPPED = ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale", "var/log")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "accelkit"
SECONDS = 900


def main() -> int:
    """Make the image; return the exit status."""
    name = sys.argv[1] if len(sys.argv) > 1 else NAME
    builder = next(filter(shutil.which, ("docker", "podman")), None)
    if builder is None:
        return refuse("neither docker nor podman is on PATH; `make programs` installs what is missing")
    archive = CACHE / f"base-{SUITE}.tar"
    try:
        if (
            subprocess.run([builder, "image", "inspect", name], capture_output=True, timeout=60, check=False).returncode
            == 0
        ):
            print(name)
            return 0
        if not archive.is_file():
            if os.geteuid() != 0:
                return refuse(f"debootstrap needs root; as root, once: {sys.executable} {Path(__file__).resolve()}")
            if not shutil.which("debootstrap"):
                return refuse("debootstrap is not on PATH; `make programs` installs what is missing")
            make(archive)
        subprocess.run([builder, "import", str(archive), name], check=True, timeout=SECONDS)
    except (subprocess.SubprocessError, OSError) as exc:
        return refuse(f"the base image could not be made: {exc}")
    print(name)
    return 0


def refuse(why: str) -> int:
    """Say why there is no image; return the exit status."""
    print(f"error: {why}", file=sys.stderr)
    return 1


def make(archive: Path, packages: str = PACKAGES) -> None:
    """Put a minimal Debian with packages into an archive, which appears as a whole or not at all."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        root = Path(folder) / "root"
        command = ["debootstrap", "--variant=minbase", f"--include={packages}", SUITE, str(root), MIRROR]
        subprocess.run(command, check=True, timeout=SECONDS, stdout=sys.stderr)
        for place in DROPPED:
            shutil.rmtree(root / place, ignore_errors=True)
            (root / place).mkdir(parents=True)
        unfinished = Path(folder) / "base.tar"
        tar = ["tar", "--create", "--numeric-owner", "--one-file-system", "--sort=name", f"--file={unfinished}"]
        subprocess.run([*tar, f"--directory={root}", "."], check=True, timeout=SECONDS)
        unfinished.rename(archive)


if __name__ == "__main__":
    sys.exit(main())
