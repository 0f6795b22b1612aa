"""playbooks/cache.yml on this machine, with nothing but a real registry."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from private_sigstore import PrivateSigstore
from registries.artifact import Artifact
from registries.caches import cache_folder, publish, sign, write_policy
from registries.real import RealRegistry

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

REPOSITORY = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
KEY = PrivateSigstore.new().key()
EACH_REGISTRY = pytest.mark.parametrize(
    "registry",
    ["debian", *(pytest.param(name, marks=pytest.mark.extended) for name in ("go-fallback", "go-referrers"))],
    indirect=True,
)


class Bed:
    """A registry, a folder with a cache, and the playbook between them."""

    def __init__(self, registry: RealRegistry, folder: Path) -> None:
        self.registry = registry
        self.folder = folder
        self.repository = registry.repository()
        self.name = f"{registry.host}/{self.repository}:v1"
        self.source = cache_folder(folder / "source")
        self.variables: dict[str, object] = {
            "accelkit_registry_plain_http": [registry.host],
            "accelkit_cache_folder": str(folder / "caches"),
            "accelkit_cache_policy": str(write_policy(folder, registry.host, KEY)),
        }

    def publish(self) -> Artifact:
        return publish(self.registry.host, self.source, self.repository)

    def sign(self, image: Artifact, version: int) -> None:
        sign(self.registry.host, image, KEY, self.repository, version=version)

    def play(self, *options: str, check: bool = True, environ: dict[str, str] | None = None, **variables) -> str:
        """Run the playbook; return what it says, after the sum of its host if it is to succeed."""
        given = self.folder / "variables.json"
        given.write_text(json.dumps(self.variables | variables))
        command = [BIN / "ansible-playbook", "playbooks/cache.yml", "-e", f"@{given}", *options]
        environ = {**os.environ, "ANSIBLE_NOCOLOR": "1", **(environ or {})}
        done = subprocess.run(
            command, cwd=REPOSITORY, env=environ, capture_output=True, text=True, timeout=200, check=False
        )
        assert (done.returncode == 0) == check, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    @property
    def extracted(self) -> list[Path]:
        return sorted(self.folder.glob("caches/sha256-*/cache"))


@pytest.fixture
def bed(registry, tmp_path) -> Bed:
    return Bed(registry, tmp_path)


@pytest.fixture
def single_bed(referrers_registry, tmp_path) -> Bed:
    """Of one registry, where it makes no difference which."""
    return Bed(referrers_registry, tmp_path)


@EACH_REGISTRY
def test_caches_are_extracted_once(bed):
    image = bed.publish()
    bed.sign(image, version=3)
    wanted = [{"image": bed.name, "mount_path": "/cache"}, {"image": bed.name, "state": "verified"}]

    shown = bed.play("--check", "--diff", accelkit_caches=wanted)
    assert f"+    digest: {image.digest}\n+    mount_path: /cache\n" in shown
    assert "changed=2 " in shown
    assert bed.extracted == []

    first = bed.play(accelkit_caches=wanted)
    (cache,) = bed.extracted
    assert "changed=2 " in first
    assert f"    - {cache}\n" in first
    assert {path.name for path in cache.glob("*/*")} == {path.name for path in bed.source.glob("*/*")}

    assert "changed=0 " in bed.play("--diff", accelkit_caches=wanted)
    assert bed.extracted == [cache]


@pytest.mark.parametrize("state", ["present", "verified"])
def test_unsigned_image_is_refused_with_reason(bed, state):
    image = bed.publish()
    shown = bed.play(check=False, accelkit_caches=[{"image": bed.name, "state": state}])
    assert f"{bed.name}@{image.digest} does not satisfy policy acme: NoSignatures" in shown
    assert "    reason: NoSignatures\n" in shown
    assert "failed=1 " in shown
    assert bed.extracted == []


def test_extraction_without_policy_is_refused(bed):
    del bed.variables["accelkit_cache_policy"]
    shown = bed.play(check=False, accelkit_caches=[{"image": bed.name}])
    assert "cannot verify caches without a signer policy; set accelkit_cache_policy" in " ".join(shown.split())


def test_local_policies_are_copied_to_hosts_before_verification(single_bed):
    bed = single_bed
    bed.sign(bed.publish(), version=3)
    local = Path(str(bed.variables.pop("accelkit_cache_policy")))
    public = bed.folder / "ci.pub"
    document = json.loads(local.read_text())
    public.write_text(document["spec"]["signers"][0]["key"]["data"])
    document["spec"]["signers"][0]["key"] = {"file": public.name}
    local.write_text(json.dumps(document))
    local.chmod(0o600)
    folder = bed.folder / "hosts" / "policies"
    given = {
        "accelkit_cache_policy_files": [str(local), str(public)],
        "accelkit_cache_policy_folder": str(folder),
        "accelkit_caches": [{"image": bed.name}, {"image": bed.name, "state": "verified"}],
    }
    # The folder, and that of the caches.
    assert "changed=2 " in bed.play("--check", **given)
    assert not folder.exists()
    assert "changed=4 " in bed.play(**given)
    assert {each.name: each.stat().st_mode & 0o777 for each in folder.iterdir()} == {local.name: 0o644, "ci.pub": 0o644}
    assert len(bed.extracted) == 1
    assert "changed=0 " in bed.play(**given)

    # Who is trusted no more is so on the hosts from the next run on.
    document["spec"]["images"] = [f"{bed.registry.host}/nothing"]
    local.write_text(json.dumps(document))
    assert "changed=1 " in bed.play("--check", **given)
    assert "NotCovered" in bed.play(check=False, **given)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (["/nowhere/signers.yaml"], "/nowhere/signers.yaml does not exist on this machine"),
        (["/etc/hostname", "{folder}/hostname"], "contains hostname, hostname; use a different name for each file"),
    ],
)
def test_policy_files_that_cannot_be_copied_are_rejected(single_bed, files, words):
    bed = single_bed
    (bed.folder / "hostname").touch()
    files = [each.format(folder=bed.folder) for each in files]
    shown = bed.play(check=False, accelkit_cache_policy_files=files, accelkit_caches=[{"image": bed.name}])
    assert words in " ".join(shown.split())
    assert bed.extracted == []


def test_invalid_state_is_rejected(bed):
    shown = bed.play(check=False, accelkit_caches=[{"image": bed.name, "state": "absent"}])
    assert "value of state must be one of: present, verified, got: absent" in shown


@EACH_REGISTRY
def test_an_image_is_built_signed_by_cosign_and_extracted_in_one_run(bed):
    cosign = shutil.which("cosign") or shutil.which("cosign3")
    if cosign is None:
        pytest.skip("neither cosign nor cosign3 is on PATH")
    environ = {"COSIGN_PASSWORD": "of the key", "HOME": str(bed.folder)}
    subprocess.run(
        [cosign, "generate-key-pair"],
        cwd=bed.folder,
        env={**os.environ, **environ},
        check=True,
        capture_output=True,
        timeout=60,
    )
    policy = Path(str(bed.variables["accelkit_cache_policy"]))
    document = json.loads(policy.read_text())
    document["spec"]["signers"][0]["key"] = {"file": "cosign.pub"}
    policy.write_text(json.dumps(document))
    signing = {"sign": True, "sign_key": str(bed.folder / "cosign.key"), "transparency_log": False}
    wanted = {
        "accelkit_cache_builds": [{"folder": str(bed.source), "image": bed.name, **signing}],
        "accelkit_caches": [{"image": bed.name}],
    }
    shown = bed.play("--check", "--diff", environ=environ, **wanted)
    assert "-    digest: null\n-    signed: false\n" in shown
    assert bed.extracted == []

    assert "changed=3 " in bed.play("--diff", environ=environ, **wanted)
    assert len(bed.extracted) == 1
    assert "changed=0 " in bed.play("--diff", environ=environ, **wanted)
    assert "changed=0 " in bed.play("--check", "--diff", environ=environ, **wanted)
