"""Build a release into dist/release-VERSION, and install it from there alone; `make release` runs it.

The folder holds what playbooks/bundle.yml packs (the wheels of accelkit and of all it needs, the collections, the
image), a bill of materials of either Python environment in CycloneDX's format, and the checksums of all files. Then its
README is followed in an empty environment without an index: what that installs has to work.

`--without-image` makes one where no image can be built. `ACCELKIT_BASE_IMAGE` names the base of the image, which is
otherwise pulled or, where that fails, made of Debian packages.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from e2e import find_base_image, succeeds

REPOSITORY = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
LOCK_OF_IMAGE = REPOSITORY / "roles" / "images" / "files" / "requirements.lock"
CHECKSUMS = "SHA256SUMS"
STEP_SECONDS = 1500


class ReleaseError(Exception):
    """One sentence about what is wrong and what to do next."""


def main() -> int:
    """Build the release and install it; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--without-image", action="store_true", help="leave the image out")
    without_image = parser.parse_args().without_image
    (REPOSITORY / "build").mkdir(exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(dir=REPOSITORY / "build") as work:
            release = build_release(Path(work), find_image_options(without_image=without_image))
            # A copy, so that nothing but the release is left in its folder.
            tried = Path(shutil.copytree(release, Path(work) / "tried"))
            python = install_release(tried, Path(work))
            write_checksums(release, describe_environment(python), describe_image(read_version(release)))
    except (ReleaseError, OSError) as exc:
        print(f"error: {exc}", file=sys.stderr)
        return 1
    print(f"--- {release.relative_to(REPOSITORY)}: built, and installed from there alone")
    return 0


def find_image_options(*, without_image: bool) -> list[str]:
    """Return the variables by which bundle.yml makes an image, or none."""
    if without_image:
        return ["-e", "accelkit_image=IMAGE"]
    if not succeeds("docker", "info"):
        raise ReleaseError("no Docker daemon answers; start one, name it in DOCKER_HOST, or give --without-image")
    base = find_base_image()
    if base is None:
        raise ReleaseError("there is no base image, for the reason above; name one in ACCELKIT_BASE_IMAGE")
    return ["-e", f"accelkit_images_base={base}"]


def build_release(work: Path, image_options: list[str]) -> Path:
    """Pack a bundle, and unpack it as dist/release-VERSION; return that folder."""
    bundle = ("playbooks/bundle.yml", "-e", f"accelkit_bundle_folder={work}", *image_options)
    run(BIN / "ansible-playbook", *bundle)
    (archive,) = work.glob("accelkit-*-bundle.tar.gz")
    run("tar", "--extract", "--file", archive, "--directory", work)
    (unpacked,) = (path for path in work.glob("accelkit-*-bundle") if path.is_dir())
    release = REPOSITORY / "dist" / f"release-{read_version(unpacked)}"
    shutil.rmtree(release, ignore_errors=True)
    release.parent.mkdir(exist_ok=True)
    return unpacked.rename(release)


def install_release(folder: Path, home: Path) -> Path:
    """Follow a release's README, and its playbook, in an empty environment; return the Python that has it then."""
    environment = {"HOME": str(home), "PATH": f"{find_bare_python()}:/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    for command in read_commands((folder / "README.md").read_text()):
        run("sh", "-ec", command, cwd=folder, environment=environment)
    unbundle = (folder / "venv" / "bin" / "ansible-playbook", "unbundle.yml")
    run(*unbundle, "-e", "accelkit_bundle_venv=other", cwd=folder, environment=environment)
    for venv in (folder / "venv", folder / "other"):
        check_installation(venv, read_version(folder), environment)
    return folder / "venv" / "bin" / "python"


def check_installation(venv: Path, version: str, environment: dict[str, str]) -> None:
    """Fail if an environment's commands, playbooks or modules are not those of this version."""
    (collection,) = venv.glob("lib/python*/site-packages/ansible_collections/accelkit/kubernetes")
    inventory = ("-i", collection / "inventories" / "sample")
    output = run(venv / "bin" / "accelkit", "--version", environment=environment)
    if version not in output:
        raise ReleaseError(f"`accelkit --version` prints {output.strip()}, but {version} was installed; build again")
    playbook = (venv / "bin" / "ansible-playbook", "accelkit.kubernetes.preflight", *inventory)
    run(*playbook, "--syntax-check", environment=environment)
    listed = run(venv / "bin" / "ansible-doc", "--list", "--json", "accelkit.kubernetes", environment=environment)
    absent = {path.stem for path in (REPOSITORY / "plugins" / "modules").glob("*.py")} - {
        name.rpartition(".")[2] for name in json.loads(listed)
    }
    if absent:
        raise ReleaseError(f"ansible-doc does not find {', '.join(sorted(absent))}; see build_ignore in galaxy.yml")


def read_commands(readme: str) -> list[str]:
    """Return the commands of a bundle's README that install it, without those that need a cluster."""
    commands = [line.strip() for line in readme.splitlines() if line.startswith("    ")]
    return [each for each in commands if "INVENTORY" not in each]


def read_version(folder: Path) -> str:
    """Return the version of an unpacked bundle."""
    return str(json.loads((folder / "bundle.json").read_text())["version"])


def describe_environment(python: Path) -> tuple[str, str]:
    """Return the name and the text of the bill of materials of a controller's environment."""
    command = (BIN / "cyclonedx-py", "environment", "--output-reproducible", python)
    return "controller.cdx.json", run(*command)


def describe_image(version: str) -> tuple[str, str]:
    """Return the name and the text of the bill of materials of the image, without its base."""
    command = (BIN / "cyclonedx-py", "requirements", "--output-reproducible")
    found = json.loads(run(*command, "--pyproject", REPOSITORY / "pyproject.toml", LOCK_OF_IMAGE))
    # pyproject.toml leaves the version to galaxy.yml.
    found["metadata"]["component"]["version"] = version
    return "image.cdx.json", json.dumps(found, indent=2) + "\n"


def write_checksums(folder: Path, *texts: tuple[str, str]) -> None:
    """Add texts to a folder, given as name and content, and rewrite the checksums of all its files."""
    for name, text in texts:
        (folder / name).write_text(text)
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != CHECKSUMS)
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder)}\n" for path in files]
    (folder / CHECKSUMS).write_text("".join(lines))
    run("sha256sum", "--check", "--quiet", CHECKSUMS, cwd=folder)


def find_bare_python() -> Path:
    """Return the folder of the Python that .venv was made from."""
    return Path(sysconfig.get_config_var("BINDIR"))


def run(*command: str | Path, cwd: Path = REPOSITORY, environment: dict[str, str] | None = None) -> str:
    """Run one step and return its output; where it fails, show what it said."""
    words = [str(each) for each in command]
    print(f"--- {' '.join(words)}", flush=True)
    try:
        done = subprocess.run(
            words,
            cwd=cwd,
            env=environment if environment is not None else dict(os.environ),
            capture_output=True,
            text=True,
            timeout=STEP_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as exc:
        raise ReleaseError(f"{words[0]} took more than {STEP_SECONDS} s; look for what it waits on") from exc
    if done.returncode:
        raise ReleaseError(f"{done.stdout}{done.stderr}\n`{' '.join(words)}` failed; correct the above, then repeat")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
