"""The bundles of Sigstore's conformance suite: each folder's name says whether it must verify."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from accelkit.cli import main

IDENTITY = (
    "https://github.com/sigstore-conformance/extremely-dangerous-public-oidc-beacon/.github/workflows/"
    "extremely-dangerous-oidc-beacon.yml@refs/heads/main"
)
ISSUER = "https://token.actions.githubusercontent.com"
VECTORS = os.environ.get("ACCELKIT_VECTORS", "")
FOLDER = Path(VECTORS) / "bundle-verify"
CASES = sorted(path.name for path in FOLDER.iterdir() if path.is_dir()) if VECTORS else []


def arguments(case: Path) -> list[str]:
    def read(name: str, default: str) -> str:
        return (case / name).read_text().strip() if (case / name).is_file() else default

    given = ["cache", "verify-bundle", "--bundle", str(case / "bundle.sigstore.json")]
    if (case / "key.pub").is_file():
        given += ["--key", str(case / "key.pub")]
    else:
        given += ["--certificate-identity", read("identity", IDENTITY)]
        given += ["--certificate-oidc-issuer", read("issuer", ISSUER)]
    if (case / "trusted_root.json").is_file():
        given += ["--trusted-root", str(case / "trusted_root.json")]
    artifact = case / "artifact"
    return [*given, str(artifact if artifact.is_file() else FOLDER / "a.txt")]


@pytest.mark.skipif(not VECTORS, reason="ACCELKIT_VECTORS does not name the folder of test vectors")
@pytest.mark.parametrize("name", CASES or ["none"])
def test_conformance_bundle_has_result_stated_in_its_name(name):
    result = CliRunner().invoke(main, arguments(FOLDER / name))
    assert (result.exit_code == 0) != name.endswith("_fail"), result.output
    # A verdict is a sentence, never a traceback.
    assert result.exit_code in {0, 1}, result.output
    assert not name.endswith("_fail") or "Error: " in result.output
