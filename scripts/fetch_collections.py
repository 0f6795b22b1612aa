"""Put the Ansible collections that a checkout needs into `collections`, without Ansible Galaxy.

They come out of the PyPI wheel of the `ansible` package, from which only their folders are unpacked: kubernetes.core,
which the roles use, awx.awx of playbooks/awx.yml, and community.docker with the one it needs, whose connection reaches
the nodes of kind. They lie beside the link in Git by which our own collection is found. Does nothing where all of this
is in place.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
COLLECTIONS = REPOSITORY / "collections" / "ansible_collections"
# The newest release for Python 3.11; it carries kubernetes.core 6.2.0, and awx.awx 24.6.1, which later ones lack.
WHEEL = "ansible==12.3.0"
WANTED = ("kubernetes/core", "awx/awx", "community/docker", "community/library_inventory_filtering_v1")
DOWNLOAD_SECONDS = 300


def main() -> int:
    """Bring in what is missing; return the exit status."""
    missing = [name for name in WANTED if not is_installed(COLLECTIONS / name)]
    if missing:
        print(f"{' '.join(missing)}: downloading the wheel {WHEEL} (55 MB), of which these folders are kept")
        try:
            unpack(missing)
        except subprocess.SubprocessError as exc:
            print(
                f"error: {WHEEL} could not be downloaded ({exc}); check that pip reaches its index, then repeat",
                file=sys.stderr,
            )
            return 1
    print(f"{' '.join(WANTED)}: present in {COLLECTIONS.relative_to(REPOSITORY)}")
    return 0


def is_installed(folder: Path) -> bool:
    """Return whether a folder contains a collection from this wheel."""
    stamp = folder / ".from"
    return stamp.is_file() and stamp.read_text() == WHEEL


def unpack(names: list[str]) -> None:
    """Download the wheel and put the named collections in place, each replaced as a whole."""
    # On the same file system, and ignored by Git.
    with tempfile.TemporaryDirectory(dir=COLLECTIONS) as work:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*command, "--only-binary=:all:", "--dest", work, WHEEL], check=True, timeout=DOWNLOAD_SECONDS)
        with zipfile.ZipFile(next(Path(work).glob("*.whl"))) as wheel:
            folders = tuple(f"ansible_collections/{name}/" for name in names)
            wheel.extractall(work, [member for member in wheel.namelist() if member.startswith(folders)])
        for name in names:
            place = COLLECTIONS / name
            shutil.rmtree(place, ignore_errors=True)
            place.parent.mkdir(exist_ok=True)
            (Path(work) / "ansible_collections" / name).rename(place)
            (place / ".from").write_text(WHEEL)


if __name__ == "__main__":
    sys.exit(main())
