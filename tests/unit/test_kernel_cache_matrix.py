"""What scripts/kernel_cache_matrix.py decides without a cluster: on which caches it goes on, and what it installs."""

from __future__ import annotations

import importlib
import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture(autouse=True)
def _scripts(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))


@pytest.fixture
def matrix():
    return importlib.import_module("kernel_cache_matrix")


class Cluster:
    """One that is there at once; what it is asked to install is kept."""

    def __init__(self, home: Path, made: list[str]) -> None:
        policy = home / "policy.yaml"
        policy.write_text("spec: {images: [quay.io/gkm/**], signers: [{key: {data: PEM}}]}\n")
        settings = {
            "accelkit_registry_mirrors": {"quay.io": "127.0.0.1:1"},
            "accelkit_registry_plain_http": ["127.0.0.1:1"],
        }
        self.home, self.gateway, self.played = home, "127.0.0.1", []
        self.images = {"real_caches": [], "made_caches": made, "policy": str(policy), "settings": settings}

    def create(self) -> None:
        """Nothing to do."""

    make_images = create

    def play(self, playbook, settings) -> None:
        self.played.append((playbook, settings))


def test_generated_caches_are_rejected_unless_allowed(matrix, tmp_path, monkeypatch):
    monkeypatch.setattr(matrix, "private_registry", lambda *_: pytest.fail("it went on"))
    with pytest.raises(matrix.KindError, match="ACCELKIT_VECTORS"):
        matrix.go_through(Cluster(tmp_path, ["vllm-cache"]), [], allow_made=False)
    with pytest.raises(pytest.fail.Exception, match="it went on"):
        matrix.go_through(Cluster(tmp_path, ["vllm-cache"]), [], allow_made=True)


def test_signing_key_is_valid_for_examples_and_private_registry(matrix, tmp_path):
    module = importlib.import_module("private_registry")
    registry = module.PrivateRegistry("127.0.0.1:2", tmp_path)
    settings = matrix.build_settings(Cluster(tmp_path, []).images, registry)
    images = [each["spec"]["images"] for each in settings["kernel_cache_signer_policies"]]
    assert images == [["quay.io/gkm/**"], ["127.0.0.1:2/**"]]
    assert settings["accelkit_registry_plain_http"] == ["127.0.0.1:1", "127.0.0.1:2"]
    assert settings["kernel_cache_pull_secret_namespaces"] == [matrix.PRIVATE]


def test_look_up_lists_paths_named_in_cache_files(tmp_path):
    look_up = importlib.import_module("matrix_cluster").LOOK_UP
    importlib.import_module("example_caches").write_vllm(tmp_path / "cache")
    index = next((tmp_path / "cache").rglob("vllm_compile_cache.py"))
    here = index.read_text().replace("/home/vllm/.cache/vllm", str(tmp_path / "cache"))
    index.write_text(here)
    said = subprocess.run(
        ["sh", "-euc", look_up, "sh", tmp_path / "cache"], capture_output=True, text=True, check=True, timeout=30
    ).stdout.splitlines()
    found = [each for each in said if not each.startswith("missing ")]
    assert found == [str(index.parent / "inductor_cache" / "piece.py")]
    # Those of the group file still name where it was captured.
    assert len(said) == 7
    assert all(each.startswith("missing /home/vllm/.cache/vllm/torch_compile_cache/") for each in {*said} - {*found})
