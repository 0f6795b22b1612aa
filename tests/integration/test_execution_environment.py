"""The build context of AWX's execution environment, as ansible-builder makes it, and what it installs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import BIN, REPOSITORY
from packaging.requirements import Requirement
from ruamel.yaml import YAML

pytestmark = pytest.mark.integration

VERSION = YAML(typ="safe").load(REPOSITORY / "galaxy.yml")["version"]
WHEEL, TARBALL = f"accelkit-{VERSION}-py3-none-any.whl", f"accelkit-kubernetes-{VERSION}.tar.gz"


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(
        [BIN / "ansible-builder", *command], cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def create(tmp_path):
    """Make the context in a checkout in which `make build` has left these files; return its folder."""

    def made(*names: str) -> Path:
        shutil.copytree(REPOSITORY / "awx", tmp_path / "awx")
        (tmp_path / "dist").mkdir()
        for name in names:
            (tmp_path / "dist" / name).write_text(name)
        output = ("--output-filename", "Dockerfile", "--context", "context")
        run("create", "--file", "awx/execution-environment.yml", *output, cwd=tmp_path)
        return tmp_path / "context"

    return made


def test_build_context_contains_wheel_and_collection_of_this_version(create):
    context = create(WHEEL, TARBALL, "cosign")
    assert {path.name for path in (context / "_build" / "dist").iterdir()} == {WHEEL, TARBALL, "cosign"}
    collections = YAML(typ="safe").load(context / "_build" / "requirements.yml")["collections"]
    # Below the context's folder, which is where ansible-galaxy runs.
    assert {"name": f"dist/{TARBALL}", "type": "file"} in collections
    assert "kubernetes.core" in {each["name"] for each in collections}


def test_base_image_can_be_replaced(create):
    lines = (create(WHEEL, TARBALL) / "Dockerfile").read_text().splitlines()
    arguments = {line.removeprefix("ARG ").split("=")[0] for line in lines if line.startswith("ARG ") and "=" in line}
    assert {"EE_BASE_IMAGE", "PYCMD", "PKGMGR"} <= arguments
    assert "FROM $EE_BASE_IMAGE AS base" in lines


def test_each_build_stage_finds_wheel(create):
    lines = (create(WHEEL, TARBALL) / "Dockerfile").read_text().splitlines()
    stages = [line for line in lines if line.startswith("FROM ")]
    first = lines[: lines.index(stages[1])]
    assert "COPY _build/dist /opt/accelkit" in first
    assert "ENV PIP_FIND_LINKS=/opt/accelkit" in first
    assert all(stage.startswith("FROM base AS ") for stage in stages[1:])


def test_collection_requires_package_of_its_own_version(tmp_path):
    home = tmp_path / "ansible_collections" / "accelkit" / "kubernetes"
    shutil.copytree(REPOSITORY / "meta", home / "meta")
    shutil.copy(REPOSITORY / "galaxy.yml", home)
    run("introspect", tmp_path, "--write-pip", tmp_path / "pip.txt", cwd=tmp_path)
    (line,) = [line for line in (tmp_path / "pip.txt").read_text().splitlines() if line.strip()]
    requirement = Requirement(line.partition("#")[0])
    assert (requirement.name, requirement.extras, str(requirement.specifier)) == (
        "accelkit",
        {"ansible-core"},
        f"=={VERSION}",
    )
