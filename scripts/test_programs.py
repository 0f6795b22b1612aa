"""Check or install the programs that tests run and that pip does not install.

    python scripts/test_programs.py check      # first step of `make test`: names what is missing, and what to run
    python scripts/test_programs.py install    # `make programs`: as root on Debian, installs it by apt

`accelkit sandbox build` builds the programs of the control plane.
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
    """A program that tests run. One of `names` on PATH is enough.

    Attributes:
        names: the commands, any of which the tests can use.
        package: Debian's package; None where the package of Debian 12 is too old.
        purpose: which tests run it.
        tested: whether `make test` needs it; other targets need the rest.
    """

    names: tuple[str, ...]
    package: str | None
    purpose: str
    tested: bool = True

    @property
    def missing(self) -> bool:
        """Whether none of them is installed."""
        return not any(shutil.which(name, path=PATH) for name in self.names)

    def __str__(self) -> str:
        return f"{' or '.join(self.names)} ({self.purpose})"


PROGRAMS = (
    Program(("git",), "git", "make lint"),
    Program(("go",), None, "a registry of the tests, and the control plane where KUBEBUILDER_ASSETS is not set"),
    Program(("busybox",), "busybox-static", "shells of hosts"),
    Program(("docker-registry",), "docker-registry", "registries of the tests"),
    Program(("curl", "wget"), "curl", "probes of hosts"),
    Program(("gcc",), "build-essential", "stand-ins of the vendors' libraries"),
    Program(("mount",), "mount", "a disk that is full"),
    Program(("promtool",), "prometheus", "alerts and dashboards"),
    Program(("setpriv",), "util-linux", "processes of simulated nodes"),
    Program(("checkmodule",), "checkpolicy", "the SELinux module"),
    Program(("semodule_package",), "semodule-utils", "the SELinux module"),
    Program(("faketime",), "faketime", "make storm: clocks that jump", tested=False),
    Program(("debootstrap",), "debootstrap", "make e2e", tested=False),
    Program(("docker",), "docker.io", "make e2e", tested=False),
)
ELSEWHERE = {"go": "Debian 12's Go is too old: take 1.24 or newer from https://go.dev/dl and put it on PATH"}


def main() -> int:
    """Check or install; return the exit status."""
    match sys.argv[1:]:
        case ["check"]:
            return check()
        case ["install"]:
            return install_missing()
        case _:
            print(__doc__, file=sys.stderr)
            return 2


def check() -> int:
    """Report the programs that `make test` needs and that are missing; return the exit status."""
    missing = [program for program in PROGRAMS if program.tested and program.missing]
    report(missing)
    if missing:
        print("Run `make programs` as root, then `make test` again.", file=sys.stderr)
    return 1 if missing else 0


def install_missing() -> int:
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
    report(missing)
    return 1 if missing else 0


def report(missing: list[Program]) -> None:
    """Print which programs are missing, and how to install each."""
    for program in missing:
        print(f"error: {program} is not on PATH; {advise(program)}", file=sys.stderr)


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
