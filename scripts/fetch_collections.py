"""Put the Ansible collections that a checkout needs into `.cache/collections`, without Ansible Galaxy.

kubernetes.core comes out of the PyPI wheel of the `ansible` package, from which only that one folder is unpacked. Our
own collection becomes a link to the checkout, so that its fully qualified names work from here. Does nothing where all
of this is in place.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
COLLECTIONS = REPOSITORY / ".cache" / "collections" / "ansible_collections"
# The newest release for Python 3.11; it carries kubernetes.core 6.2.0.
WHEEL = "ansible==12.3.0"
FOLDER = "ansible_collections/kubernetes/core/"
DOWNLOAD_SECONDS = 300


def main() -> int:
    """Bring in what is missing; return the exit status."""
    core = COLLECTIONS / "kubernetes" / "core"
    stamp = core / ".from"
    if stamp.is_file() and stamp.read_text() == WHEEL:
        print(f"kubernetes.core: present in {core.relative_to(REPOSITORY)}")
    else:
        print(f"kubernetes.core: downloading the wheel {WHEEL} (55 MB), of which one folder is kept")
        try:
            unpack(core)
        except subprocess.SubprocessError as exc:
            print(
                f"error: {WHEEL} could not be downloaded ({exc}); check that pip reaches its index, then repeat",
                file=sys.stderr,
            )
            return 1
        stamp.write_text(WHEEL)
        print(f"kubernetes.core: unpacked into {core.relative_to(REPOSITORY)}")
    link = COLLECTIONS / "accelkit" / "kubernetes"
    print(f"accelkit.kubernetes: {'present' if linked(link) else 'linked to this checkout'}")
    return 0


def unpack(core: Path) -> None:
    """Download the wheel and move its kubernetes.core to `core`, which is replaced as a whole."""
    core.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=core.parent) as name:
        work = Path(name)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*command, "--only-binary=:all:", "--dest", name, WHEEL], check=True, timeout=DOWNLOAD_SECONDS)
        with zipfile.ZipFile(next(work.glob("*.whl"))) as wheel:
            wheel.extractall(work, [member for member in wheel.namelist() if member.startswith(FOLDER)])
        shutil.rmtree(core, ignore_errors=True)
        (work / FOLDER).rename(core)


def linked(link: Path) -> bool:
    """Point `link` at the checkout; return whether it already did."""
    if link.is_symlink() and link.resolve() == REPOSITORY:
        return True
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    # Relative, so that a checkout that is moved still works.
    link.symlink_to(Path("../../../.."), target_is_directory=True)
    return False


if __name__ == "__main__":
    sys.exit(main())
