"""What real cosign signs on real registries, our verdict accepts for its key and for no other."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from private_sigstore import example_image
from registries.real import RealRegistry

from accelkit.kernelcache.oci.reference import parse_reference
from accelkit.kernelcache.registry import RegistryClient, RegistrySettings
from accelkit.kernelcache.signatures import RejectionReason, UnverifiedError, load_policies, verify_image

IMAGE = example_image()
_SECONDS = 60

# How each release signs without a log, and in which format.
WAYS = {
    "cosign 2": ("cosign", ["--tlog-upload=false"], "cosign-v2"),
    "cosign 3": ("cosign3", ["--signing-config", "services.json"], "cosign-v3"),
    "cosign 3 as 2": (
        "cosign3",
        ["--use-signing-config=false", "--tlog-upload=false", "--new-bundle-format=false"],
        "cosign-v2",
    ),
}


@pytest.fixture
def cosign(tmp_path: Path) -> Callable[..., None]:
    """Runs one of the two cosigns in the test's folder."""

    def run(name: str, *arguments: str) -> None:
        executable = shutil.which(name)
        if executable is None:
            pytest.skip(f"{name} is not on PATH")
        environ = {**os.environ, "HOME": str(tmp_path), "DOCKER_CONFIG": str(tmp_path), "COSIGN_PASSWORD": ""}
        done = subprocess.run(
            [executable, *arguments],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    return run


def by_key(folder: Path, name: str) -> Path:
    """A policy that wants a signature by one key, without a log."""
    path = folder / f"{name}.yaml"
    path.write_text(f"""\
apiVersion: accelkit.io/v1alpha1
kind: SignerPolicy
metadata: {{name: {name}}}
spec:
  images: ["127.0.0.1*/**"]
  signers:
    - key: {{file: {name}.pub}}
      transparencyLog: notRequired
""")
    return path


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_cosign_signature_is_accepted_only_for_its_key(
    cosign, registry: RealRegistry, tmp_path: Path, way: tuple[str, list[str], str]
):
    name, how, form = way
    for key in ("signer", "other"):
        cosign(name, "generate-key-pair", "--output-key-prefix", key)
    if "services.json" in how:
        cosign(name, "signing-config", "create", "--out", "services.json")
    repository = registry.repository()
    registry.push(repository, IMAGE, tag="v1")
    image = f"{registry.host}/{repository}"
    cosign(name, "sign", "--key", "signer.key", *how, "--allow-http-registry", "-y", f"{image}@{IMAGE.digest}")
    settings = RegistrySettings(plain_http=frozenset({registry.host}))
    async with RegistryClient(settings) as client:
        verification = await verify_image(
            client, parse_reference(f"{image}:v1"), load_policies(by_key(tmp_path, "signer"))
        )
        with pytest.raises(UnverifiedError) as caught:
            await verify_image(client, parse_reference(f"{image}:v1"), load_policies(by_key(tmp_path, "other")))
    assert verification.image.digest == IMAGE.digest
    assert [each.format for each in verification.signatures] == [form]
    assert caught.value.reason == RejectionReason.SIGNATURE_INVALID


async def test_cosign_attestation_is_not_accepted_as_signature(cosign, registry: RealRegistry, tmp_path: Path):
    cosign("cosign3", "generate-key-pair", "--output-key-prefix", "signer")
    cosign("cosign3", "signing-config", "create", "--out", "services.json")
    (tmp_path / "predicate.json").write_text("{}")
    repository = registry.repository()
    registry.push(repository, IMAGE, tag="v1")
    image = f"{registry.host}/{repository}"
    statement = ["--predicate", "predicate.json", "--type", "https://example.test/sbom/v1"]
    services = ["--signing-config", "services.json", "--allow-http-registry", "-y"]
    cosign("cosign3", "attest", "--key", "signer.key", *statement, *services, f"{image}@{IMAGE.digest}")
    async with RegistryClient(RegistrySettings(plain_http=frozenset({registry.host}))) as client:
        with pytest.raises(UnverifiedError) as caught:
            await verify_image(client, parse_reference(f"{image}:v1"), load_policies(by_key(tmp_path, "signer")))
    assert caught.value.reason == RejectionReason.NOT_A_SIGNATURE
