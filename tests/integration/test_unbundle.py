"""playbooks/unbundle.yml refuses a bundle that is not as it was packed; `make release` installs a whole one."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BIN, REPOSITORY

pytestmark = pytest.mark.integration

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


class Bundle:
    """An unpacked bundle without wheels, collections and image."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copy(REPOSITORY / "playbooks" / "unbundle.yml", folder)

    def describe(self, python: str) -> None:
        """Write for which Python it is, and the checksum of that."""
        facts = {"version": "0.1.0", "image": "", "python": python, "machine": platform.machine()}
        text = json.dumps(facts)
        (self.folder / "bundle.json").write_text(text)
        (self.folder / "SHA256SUMS").write_text(f"{hashlib.sha256(text.encode()).hexdigest()}  bundle.json\n")

    def install(self) -> str:
        """Run the playbook in the bundle, which must fail; return what it says."""
        done = subprocess.run(
            [BIN / "ansible-playbook", "unbundle.yml"],
            cwd=self.folder,
            env={"PATH": os.environ["PATH"], "HOME": str(self.folder), "LC_ALL": "C.UTF-8", "ANSIBLE_NOCOLOR": "1"},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode != 0, done.stdout
        return " ".join((done.stdout + done.stderr).split())


@pytest.fixture
def bundle(tmp_path):
    return Bundle(tmp_path)


def test_folder_without_checksums_is_rejected(bundle):
    assert "does not contain the file SHA256SUMS; unpack accelkit-…-bundle.tar.gz" in bundle.install()


def test_added_package_is_reported(bundle):
    bundle.describe(PYTHON)
    (bundle.folder / "wheels").mkdir()
    (bundle.folder / "wheels" / "click-999-py3-none-any.whl").touch()
    assert "files are not in SHA256SUMS: wheels/click-999-py3-none-any.whl; copy the bundle again" in bundle.install()


def test_changed_file_is_reported(bundle):
    bundle.describe(PYTHON)
    with (bundle.folder / "bundle.json").open("a") as file:
        file.write(" ")
    assert "files differ from SHA256SUMS: bundle.json; copy the bundle again" in bundle.install()
    assert not (bundle.folder / "venv").exists()


def test_a_bundle_for_another_python_is_refused(bundle):
    bundle.describe("3.1")
    assert f"the bundle is for Python 3.1 on {platform.machine()}, but" in bundle.install()
    assert not (bundle.folder / "venv").exists()


def test_missing_wheel_is_not_downloaded_from_index(bundle):
    """An environment is made, and pip finds nothing in the bundle."""
    bundle.describe(PYTHON)
    assert "No matching distribution found for accelkit" in bundle.install()
