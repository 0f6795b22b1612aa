"""The images of the examples, made by their script and signed by real cosign, hold before the policy that it leaves."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from registries import real

from accelkit.errors import CacheError
from accelkit.kernelcache.compatibility.arguments import resolve_cards
from accelkit.kernelcache.extraction import ExtractionRequest, extract_image
from accelkit.kernelcache.oci.reference import parse_reference
from accelkit.kernelcache.registry import RegistryClient, RegistrySettings
from accelkit.kernelcache.signatures import RejectionReason, UnverifiedError, load_policies

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

SCRIPT = Path(__file__).parents[2] / "scripts" / "cache_example_images.py"
CACHES = "gkm/cache-examples"


class Made:
    """A registry with the images, and what the script said of them."""

    def __init__(self, host: str, said: dict, folder: Path) -> None:
        self.host, self.said = host, said
        text = Path(said["policy"]).read_text()
        (folder / "policy.yaml").write_text(text.replace("quay.io/", f"{host}/"))
        self.policies = load_policies(folder / "policy.yaml")

    async def extract(self, tag: str, base: Path, card: str):
        """Extract an image for a card, if its signatures hold."""
        reference = parse_reference(f"{self.host}/{CACHES}:{tag}")
        node = await resolve_cards((card,), None, None)
        async with RegistryClient(RegistrySettings(plain_http=frozenset({self.host}))) as client:
            request = ExtractionRequest(reference, base, self.policies, mount_path="/cache", node=node)
            return await extract_image(client, request)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    for name in ("cosign", "cosign3"):
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not on PATH")
    folder = tmp_path_factory.mktemp("images")
    try:
        with real.debian() as registry:
            command = [sys.executable, SCRIPT, "--registry", registry.host, "--keys", folder / "keys"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
            assert done.returncode == 0, done.stderr
            yield Made(registry.host, json.loads(done.stdout), folder)
    except real.AbsentError as why:
        pytest.skip(str(why))


@pytest.mark.parametrize("form", ["cosign-v2", "cosign-v3"])
@pytest.mark.parametrize(
    ("name", "card"),
    [("vector-add-cache-cuda", "cuda:75"), ("vector-add-cache-rocm", "hip:gfx90a"), ("vllm-cache", "hip:gfx90a")],
)
async def test_example_image_is_signed_in_format_of_its_tag_and_extracts(made, tmp_path, name, card, form):
    tag = f"{name}-v2" if form == "cosign-v2" else name
    result = await made.extract(tag, tmp_path, card)
    assert made.said["formats"][f"{CACHES}:{tag}"] == form
    [signature] = result.record.signatures
    assert form in signature
    assert result.place.digest == made.said["images"][f"{CACHES}:{tag}"]
    groups = [*result.place.cache.rglob("__grp__*.json")]
    paths = [path for each in groups for path in json.loads(each.read_text())["child_paths"].values()]
    assert paths
    for path in paths:
        assert (result.place.cache / Path(path).relative_to("/cache")).is_file()


async def test_example_images_have_different_digests(made):
    digests = made.said["images"]
    assert len(digests) == len({*digests.values()}) == 9


async def test_example_image_for_other_cards_is_refused(made, tmp_path):
    with pytest.raises(CacheError, match="BackendMismatch"):
        await made.extract("vector-add-cache-cuda", tmp_path, "hip:gfx90a")


@pytest.mark.parametrize(
    ("end", "reason"),
    [("unsigned", RejectionReason.NO_SIGNATURES), ("stranger", RejectionReason.SIGNATURE_INVALID)],
)
async def test_invalid_example_images_are_refused(made, tmp_path, end, reason):
    with pytest.raises(UnverifiedError) as caught:
        await made.extract(f"vector-add-cache-rocm-{end}", tmp_path, "hip:gfx90a")
    assert caught.value.reason == reason
    assert not [*tmp_path.iterdir()]
