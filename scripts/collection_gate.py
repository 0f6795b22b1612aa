"""Check the collection as its users get it: the built tarball, unpacked, under Ansible's own tools.

`collection_gate.py lint` runs antsibull-changelog, antsibull-docs, galaxy-importer and `ansible-test sanity`;
`collection_gate.py units` runs `ansible-test units`. Both work on a tarball that is built first, so a file that exists
in the checkout but is not shipped, or is shipped and should not be, is found here.

Everything it keeps lies under `build/` and `.cache/`. Of the network it needs a Python package index, the first time.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Collection
from importlib.util import find_spec
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
BUILD = REPOSITORY / "build"
COLLECTION = BUILD / "ansible_collections" / "accelkit" / "kubernetes"
DEPENDENCIES = str(REPOSITORY / "collections")
# ansible-test keeps its environments in its home folder; with one of our own, `make clean` finds them.
HOME = REPOSITORY / ".cache" / "ansible-test"
IMPORTER = REPOSITORY / ".cache" / "importer"
BIN = Path(sys.executable).parent
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
# The first run builds environments; a minute is what later ones take.
STEP_SECONDS = 1500

# What the tarball may hold; any other file in it is an oversight.
SHIPPED = (
    *(
        "CHANGELOG.md",
        "CODE_OF_CONDUCT.md",
        "CONTRIBUTING.md",
        "FILES.json",
        "LICENSE",
        "MANIFEST.json",
        "README.md",
        "SECURITY.md",
        "awx/",
        "changelogs/",
        "docs/",
        "examples/",
    ),
    *("extensions/", "inventories/", "meta/", "playbooks/", "plugins/", "roles/", "site.yml"),
    *("requirements.lock", "requirements.yml"),
    *("tests/config.yml", "tests/sanity/", "tests/unit/plugins/", "tests/unit/requirements.txt"),
)

# ansible-test fetches get-pip from a host of its own. This does the same with the pip that comes with Python.
GET_PIP = """
import ensurepip
import os
import subprocess
import sys
import sysconfig

# Debian keeps the wheels in a folder of their own.
bundled = sysconfig.get_config_var("WHEEL_PKG_DIR") or os.path.join(os.path.dirname(ensurepip.__file__), "_bundled")
wheel = [name for name in os.listdir(bundled) if name.startswith("pip-")][0]
arguments = [each for each in sys.argv[1:] if each not in ("--no-setuptools", "--no-wheel")]
environment = dict(os.environ, PYTHONPATH=os.path.join(bundled, wheel))
sys.exit(subprocess.call([sys.executable, "-m", "pip", "install"] + arguments, env=environment))
"""


class GateError(Exception):
    """One sentence about what is wrong and what to do next."""


def main() -> int:
    """Run the gate that is named on the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gate", choices=["lint", "units"])
    gate = parser.parse_args().gate
    try:
        tarball = build()
        unpack(tarball)
        if gate == "lint":
            check_changelog()
            check_documentation()
            run_importer(tarball)
            run_sanity()
        else:
            run_units()
    except GateError as exc:
        print(f"error: {exc}", file=sys.stderr)
        return 1
    return 0


def build() -> Path:
    """Build the tarball; fail if it contains an unexpected file, or lacks one that its README names."""
    announce("ansible-galaxy collection build")
    with tempfile.TemporaryDirectory(dir=ensure_folder(BUILD)) as folder:
        run(BIN / "ansible-galaxy", "collection", "build", "--output-path", folder, quiet=True)
        (built,) = Path(folder).iterdir()
        tarball = built.replace(BUILD / built.name)
    with tarfile.open(tarball) as archive:
        members = archive.getmembers()
    strays = [each.name for each in members if not each.isdir() and not each.name.startswith(SHIPPED)]
    if strays:
        raise GateError(
            f"the tarball holds {', '.join(sorted(strays)[:10])}; keep it out by build_ignore in galaxy.yml, or name "
            f"it in {Path(__file__).name}"
        )
    tracked = run("git", "ls-files", "-z", quiet=True).split("\0")
    absent = find_unshipped((REPOSITORY / "README.md").read_text(), tracked, [each.name for each in members])
    if absent:
        raise GateError(
            f"README.md names {', '.join(absent)}, which the tarball lacks; ship it (build_ignore in galaxy.yml), or "
            "name it elsewhere"
        )
    return tarball


def find_unshipped(readme: str, tracked: Collection[str], shipped: Collection[str]) -> list[str]:
    """Return what a README names and the tarball lacks: targets of links, and paths of the checkout in its text."""
    ours, present = include_folders(tracked), include_folders(shipped)
    links = re.findall(r"\]\((?!\w+:|#)([^)#\s]+)", readme)
    # What looks like a path below a folder of ours, and what is one, whether in a sentence or a command.
    spans = [each for each in re.findall(r"`([\w.-]+/[\w./-]*)`", readme) if str(Path(each).parent) in ours]
    words = [each.rstrip(".") for each in re.findall(r"(?<![\w./-])[\w.-]+[./][\w./-]*", readme)]
    named = {*links, *spans, *(each for each in words if each.rstrip("/") in ours)}
    return sorted(each for each in named if each.rstrip("/") not in present)


def include_folders(paths: Collection[str]) -> set[str]:
    """Return paths and the folders that they lie in."""
    return {*paths, *(str(folder) for each in paths for folder in Path(each).parents)}


def unpack(tarball: Path) -> None:
    """Put the tarball's files where ansible-test wants them: in a Git checkout at a collection's path."""
    # Its environment for units lies in tests/output, and stays.
    for path in ensure_folder(COLLECTION).iterdir():
        if path.name == "tests":
            for inner in path.iterdir():
                if inner.name != "output":
                    remove(inner)
        else:
            remove(path)
    # Debian 12's Python has no filter for tarfile yet.
    run("tar", "--extract", "--file", tarball, "--directory", COLLECTION)
    run("git", "init", "--quiet", cwd=COLLECTION)
    (COLLECTION / ".git" / "info" / "exclude").write_text("tests/output/\n")
    run("git", "add", "--all", cwd=COLLECTION)


def check_changelog() -> None:
    """Check the fragments and the file that releases are kept in."""
    announce("antsibull-changelog lint")
    run(BIN / "antsibull-changelog", "lint")


def check_documentation() -> None:
    """Check the markup of every plugin's documentation and that what it refers to exists."""
    announce("antsibull-docs lint-collection-docs")
    options = ["--plugin-docs", "--validate-collection-refs", "dependent"]
    command: list[str | Path] = [BIN / "antsibull-docs", "lint-collection-docs", *options, "."]
    run(*command, cwd=COLLECTION, ANSIBLE_COLLECTIONS_PATH=DEPENDENCIES)


def run_importer(tarball: Path) -> None:
    """Run Galaxy's importer on the tarball; its warnings count as failures."""
    announce("galaxy-importer")
    lock, installed = REPOSITORY / "requirements-importer.lock", IMPORTER / "installed.lock"
    if not installed.is_file() or installed.read_text() != lock.read_text():
        run(sys.executable, "-m", "venv", "--clear", IMPORTER)
        install = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps")
        run(IMPORTER / "bin" / "python", *install, "--require-hashes", "--requirement", lock)
        shutil.copyfile(lock, installed)
    environment = {
        "PATH": f"{IMPORTER / 'bin'}:{os.environ['PATH']}",
        "ANSIBLE_COLLECTIONS_PATH": DEPENDENCIES,
        # ansible-lint runs on the checkout, ansible-test next.
        "GALAXY_IMPORTER_RUN_ANSIBLE_LINT": "false",
        "GALAXY_IMPORTER_CHECK_REQUIRED_TAGS": "true",
    }
    output = run(
        *(IMPORTER / "bin" / "python", "-m", "galaxy_importer.main", tarball), quiet=True, cwd=BUILD, **environment
    )
    complaints = [line for line in output.splitlines() if line.startswith(("WARNING", "ERROR"))]
    if complaints:
        raise GateError("galaxy-importer warns:\n" + "\n".join(complaints))


def run_sanity() -> None:
    """Run all of ansible-test's sanity tests."""
    announce("ansible-test sanity")
    provide_get_pip()
    run_ansible_test("sanity")


def run_units() -> None:
    """Run the unit tests that are shipped, with the accelkit of this checkout."""
    announce("ansible-test units")
    provide_get_pip()
    requirements = COLLECTION / "tests" / "unit" / "requirements.txt"
    requirements.write_text(requirements.read_text().replace("accelkit\n", f"--editable {REPOSITORY}\n"))
    run_ansible_test("units")


def run_ansible_test(command: str) -> None:
    """Run it in an environment of its own, on the Python that runs this."""
    run(BIN / "ansible-test", command, "--venv", "--python", PYTHON, "--color", "no", cwd=COLLECTION, HOME=str(HOME))


def provide_get_pip() -> None:
    """Give ansible-test its get-pip, under the name that carries the version of pip which it wants."""
    package = find_spec("ansible_test")
    if package is None or package.origin is None:
        raise GateError("ansible_test is not installed")
    source = Path(package.origin).parent / "_internal" / "python_requirements.py"
    found = re.search(r"pip='([0-9.]+)'", source.read_text())
    if found is None:
        raise GateError(f"{source} does not say which pip it wants; adapt {Path(__file__).name} to this ansible-core")
    cache = ensure_folder(HOME / ".ansible" / "test" / "cache")
    (cache / f"get_pip_{found[1].replace('.', '_')}.py").write_text(GET_PIP)


def run(*command: str | Path, quiet: bool = False, cwd: Path = REPOSITORY, **environment: str) -> str:
    """Run one step; with `quiet`, show its output only where it fails. Return that output."""
    try:
        done = subprocess.run(
            [str(each) for each in command],
            cwd=cwd,
            env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", **environment},
            stdout=subprocess.PIPE if quiet else None,
            stderr=subprocess.STDOUT if quiet else None,
            text=True,
            timeout=STEP_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as exc:
        raise GateError(f"{Path(command[0]).name} took more than {STEP_SECONDS} s; look for what it waits on") from exc
    if done.returncode:
        raise GateError(f"{done.stdout or ''}{Path(command[0]).name} found the above; correct it, then repeat")
    return done.stdout or ""


def announce(step: str) -> None:
    """Announce a step."""
    print(f"--- {step}", flush=True)


def ensure_folder(folder: Path) -> Path:
    """Make a folder where it is absent; return it."""
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def remove(path: Path) -> None:
    """Delete a file or a folder."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


if __name__ == "__main__":
    sys.exit(main())
