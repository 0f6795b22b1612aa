"""Install the programs that tests and checks run and pip does not bring; `make programs` runs it.

On Debian and systems made from it, as root, missing programs come from apt. Elsewhere, or without root, this says which
are missing and how to install them. The binaries of the control plane are built by `accelkit sandbox build`, not here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass

SECONDS = 900
# Where Debian keeps programs for root; the PATH of others may lack them.
PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))


@dataclass(frozen=True)
class Program:
    """One of `names` on PATH is enough.

    Args:
        names: what satisfies the tests.
        package: Debian's package; None where Debian 12 has none that is new enough.
        purpose: who runs it.
    """

    names: tuple[str, ...]
    package: str | None
    purpose: str

    @property
    def missing(self) -> bool:
        """Whether none of them is installed."""
        return not any(shutil.which(name, path=PATH) for name in self.names)

    def __str__(self) -> str:
        return f"{' or '.join(self.names)} ({self.purpose})"


PROGRAMS = (
    Program(("git",), "git", "make lint"),
    Program(("go",), None, "a registry of the tests, and the control plane where KUBEBUILDER_ASSETS names none"),
    Program(("busybox",), "busybox-static", "shells of hosts"),
    Program(("docker-registry",), "docker-registry", "registries of the tests"),
    Program(("curl", "wget"), "curl", "probes of hosts"),
    Program(("gcc",), "build-essential", "stand-ins of the vendors' libraries"),
    Program(("mount",), "mount", "a disk that is full"),
    Program(("faketime",), "faketime", "clocks that jump in storms"),
    Program(("promtool",), "prometheus", "alerts and dashboards"),
    Program(("setpriv",), "util-linux", "processes of simulated nodes"),
    Program(("checkmodule",), "checkpolicy", "the SELinux module"),
    Program(("semodule_package",), "semodule-utils", "the SELinux module"),
    Program(("debootstrap",), "debootstrap", "make e2e"),
    Program(("docker",), "docker.io", "make e2e"),
)
ELSEWHERE = {"go": "Debian 12's Go is too old: take 1.24 or newer from https://go.dev/dl and put it on PATH"}


def main() -> int:
    """Install what is missing; return the exit status."""
    missing = [program for program in PROGRAMS if program.missing]
    packages = [program.package for program in missing if program.package]
    if packages and os.geteuid() == 0 and shutil.which("apt-get"):
        try:
            install(packages)
        except (subprocess.SubprocessError, OSError) as exc:
            print(f"error: apt-get could not install {' '.join(packages)}: {exc}", file=sys.stderr)
            return 1
        missing = [program for program in missing if program.missing]
    for program in missing:
        print(f"error: {program} is not on PATH; {advise(program)}", file=sys.stderr)
    return 1 if missing else 0


def install(packages: list[str]) -> None:
    """Let apt install packages; its lists are fetched where they are absent or old."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", "install", "--yes", "--no-install-recommends", *packages]
    if subprocess.run(command, env=environment, timeout=SECONDS, check=False).returncode:
        subprocess.run(["apt-get", "update"], env=environment, timeout=SECONDS, check=True)
        subprocess.run(command, env=environment, timeout=SECONDS, check=True)


def advise(program: Program) -> str:
    """Return how to install a program."""
    if not program.package:
        return ELSEWHERE[program.names[0]]
    if shutil.which("apt-get"):
        return f"as root: apt-get install {program.package}"
    return f"install it with this system's package manager (Debian calls the package {program.package})"


if __name__ == "__main__":
    sys.exit(main())
