"""The manifests, snippets and scripts in `examples/`; ACCELKIT_WRITE_GOLDEN=1 writes the manifests anew."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from accelkit.examples.custom import read_custom
from accelkit.examples.example import ALL_EXAMPLES, Environment
from accelkit.examples.files import render
from accelkit.examples.objects import build_objects

EXAMPLES = Path(__file__).parents[4] / "examples"
MANIFESTS = EXAMPLES / "kernel-caches"
OF_KIND = [example for example in ALL_EXAMPLES if example.environment is Environment.KIND]
VARIABLES = ("DEBUG", "CUSTOM_AFFINITY", "CUSTOM_TOLERATION", *(f"CUSTOM_NODE_SELECTOR_{n}" for n in (1, 2, 3)))


@pytest.mark.parametrize("example", OF_KIND, ids=lambda example: example.file_name)
def test_shipped_manifest_matches_generated_manifest(example):
    text = render(build_objects(example))
    path = MANIFESTS / example.file_name
    if os.environ.get("ACCELKIT_WRITE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert path.read_text() == text


def test_exactly_kind_examples_have_shipped_manifests():
    assert len(OF_KIND) == 16
    assert sorted(path.name for path in MANIFESTS.iterdir()) == sorted(each.file_name for each in OF_KIND)


def read_snippet(path):
    """Read a snippet as what its name says that it is."""
    kind, *_ = path.name.split("-")
    if kind == "affinity":
        return read_custom(affinity=path).affinity
    if kind == "toleration":
        return read_custom(toleration=path).tolerations
    return read_custom(node_selectors=(path, None, None)).node_selectors[0]


def test_snippets_match_their_file_names():
    read = {path.stem: read_snippet(path) for path in (EXAMPLES / "patch").iterdir()}
    assert {*read} == {
        *("affinity-nfd-cuda", "affinity-nfd-rocm", "node-selector-kind-false", "node-selector-kind-true"),
        *("toleration-kind", "toleration-nfd-cuda", "toleration-nfd-rocm"),
    }
    assert read["node-selector-kind-false"] == {"gkm-test-node": "false"}
    assert [each["key"] for each in read["toleration-nfd-rocm"]] == ["amd.com/gpu"]


@pytest.mark.parametrize("name", ["toleration-kind", "toleration-nfd-cuda", "toleration-nfd-rocm"])
def test_toleration_snippets_match_tolerations_of_environments(name):
    gpu = "rocm" if name.endswith("rocm") else "cuda"
    environment = Environment.KIND if name.endswith("kind") else Environment.NFD
    example = next(each for each in ALL_EXAMPLES if each.gpu == gpu and each.environment is environment)
    _, cache, *_ = build_objects(example)
    assert cache["spec"]["podTemplate"]["spec"]["tolerations"] == read_snippet(EXAMPLES / "patch" / f"{name}.txt")


@pytest.mark.parametrize("gpu", ["cuda", "rocm"])
def test_affinity_snippets_match_affinity_of_nfd_environment(gpu):
    example = next(each for each in ALL_EXAMPLES if each.gpu == gpu and each.environment is Environment.NFD)
    _, cache, *_ = build_objects(example)
    assert cache["spec"]["podTemplate"]["spec"]["affinity"] == read_snippet(
        EXAMPLES / "patch" / f"affinity-nfd-{gpu}.txt"
    )


@pytest.fixture
def scripts(tmp_path):
    """Run the scripts in a copy of the folder, with our program on PATH, from the folder above or in it."""
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    kept = {key: value for key, value in os.environ.items() if key not in VARIABLES}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

    def run(command, *arguments, folder=".", **more):
        environment = {**kept, **more, "PATH": path}
        folder = tmp_path / folder
        return subprocess.run(
            [command, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
        )

    return run


@pytest.mark.parametrize(("folder", "where"), [(".", "examples/"), ("examples", "./"), ("examples/patch", "../")])
def test_scripts_write_and_clean_up_from_any_folder(scripts, tmp_path, folder, where):
    custom = {"CUSTOM_AFFINITY": "patch/affinity-nfd-rocm.txt", "DEBUG": "true"}
    done = scripts(f"{where}generate-files.sh", "rwo", "namespace", "rocm", "v3", folder=folder, **custom)
    assert (done.returncode, done.stderr) == (0, "")
    text, path = done.stdout.rsplit("\n", 2)[:2]
    assert path == "output/rwo-ns-rocm-v3.yaml"
    assert (tmp_path / "examples" / path).read_text().strip() == text.strip()
    assert "pci-1200_1002.present" in text
    assert scripts(f"{where}cleanup-files.sh", folder=folder).stdout == f"deleted {path}\n"
    assert not (tmp_path / "examples" / path).exists()


@pytest.mark.parametrize("name", ["generate-files.sh", "cleanup-files.sh"])
def test_script_help_names_script(scripts, name):
    done = scripts(f"./{name}", "--help", folder="examples")
    assert done.stdout.startswith(f"Usage: ./{name} [OPTIONS]")
    assert "accelkit examples" not in done.stdout


def test_script_exits_with_status_of_program(scripts):
    done = scripts("examples/generate-files.sh", "rwo", "nowhere", "rocm", "v3")
    assert done.returncode == 2
    assert "'nowhere' is not one of" in done.stderr
