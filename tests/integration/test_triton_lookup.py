"""Triton's own lookup finds every file of each kernel after an extraction, wherever pods see the cache.

Its package has 290 MB, so it is not among the tools of the tests: `make triton-lookup` installs it beside, and names
its Python in ACCELKIT_TRITON_PYTHON.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from registries import real
from registries.caches import cache_folder

from accelkit.kernelcache.extraction import ExtractionRequest, extract_image
from accelkit.kernelcache.extraction.private_copy import make_private_copy
from accelkit.kernelcache.formats.relocation.moved_tree import MovedTree
from accelkit.kernelcache.oci.reference import parse_reference
from accelkit.kernelcache.publishing.build import BuildOptions, build_image
from accelkit.kernelcache.registry import RegistryClient, RegistrySettings

PYTHON = os.environ.get("ACCELKIT_TRITON_PYTHON")
VECTORS = os.environ.get("ACCELKIT_VECTORS")
CACHES = ["made", "vector-add-cache", "vector-add-cache-rocm"]

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not PYTHON, reason="run by `make triton-lookup`, which sets ACCELKIT_TRITON_PYTHON"),
]

# What each group of the cache leads to, as Triton's compiler asks; null is a miss.
LOOKUP = """
import json, os
from triton.runtime.cache import FileCacheManager
root, found = os.environ["TRITON_CACHE_DIR"], {}
for key in sorted(each.name for each in os.scandir(root) if each.is_dir()):
    manager = FileCacheManager(key)
    for name in sorted(os.listdir(os.path.join(root, key))):
        if name.startswith("__grp__"):
            group = manager.get_group(name.removeprefix("__grp__"))
            found[key] = group and {child: len(open(path, "rb").read()) for child, path in group.items()}
print(json.dumps(found))
"""


def look_up(folder: Path):
    """Return what Triton finds below a folder: the bytes of each file, or None, by the kernel's key."""
    environ = {**os.environ, "TRITON_CACHE_DIR": str(folder)}
    done = subprocess.run([PYTHON, "-c", LOOKUP], env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def host():
    try:
        with real.debian() as registry:
            yield registry.host
    except real.AbsentError as why:
        pytest.skip(str(why))


@pytest.fixture(params=CACHES)
def built(request, tmp_path):
    """A cache as it came from the machine that filled it, and what Triton must find in it."""
    if request.param == "made":
        folder = cache_folder(tmp_path / "filled")
    elif VECTORS is None:
        pytest.skip("ACCELKIT_VECTORS does not name the caches of others")
    else:
        folder = Path(VECTORS) / "caches" / request.param
    expected = {}
    for group in folder.glob("*/__grp__*"):
        children = json.loads(group.read_text())["child_paths"]
        expected[group.parent.name] = {name: (group.parent / name).stat().st_size for name in children}
    assert expected
    return folder, expected


async def extract(host: str, folder: Path, base: Path, mount_path: Path) -> Path:
    """Build, push and extract a cache for a mount path; return where its files lie."""
    reference = parse_reference(f"{host}/lookup/{base.parent.name.lower()}:v1")
    async with RegistryClient(RegistrySettings(plain_http=frozenset({host}))) as client:
        await build_image(folder, reference, BuildOptions(architecture="amd64"), client)
        request = ExtractionRequest(reference, base, policies=None, mount_path=str(mount_path))
        return (await extract_image(client, request)).place.cache


def link(source: Path, target: Path) -> None:
    """As an agent's link leads a claim to a digest."""
    target.symlink_to(source)


def copy(source: Path, target: Path) -> None:
    """As a pod that writes gets it."""
    shutil.copytree(source, target)


def farm(source: Path, target: Path) -> None:
    """A folder of links to each file, as `cp -rs` makes it."""
    subprocess.run(["cp", "-rs", source, target], check=True, timeout=60)


@pytest.mark.parametrize("way", [link, copy, farm])
async def test_triton_finds_each_file_at_mount_path_of_pods(host, built, tmp_path, way):
    folder, expected = built
    seen = tmp_path / "home" / "triton"
    seen.parent.mkdir()
    files = await extract(host, folder, tmp_path / "node", seen)
    way(files, seen)
    assert look_up(seen) == expected


async def test_triton_finds_every_file_in_a_private_copy_for_another_path(host, built, tmp_path):
    folder, expected = built
    files = await extract(host, folder, tmp_path / "node", Path("/kernel-caches"))
    unmoved, moved = tmp_path / "unmoved", tmp_path / "moved"
    for target, tree in ((unmoved, None), (moved, MovedTree(str(moved)))):
        target.mkdir()
        make_private_copy(files, target, tree)
    assert look_up(moved) == expected
    assert look_up(unmoved) == dict.fromkeys(expected)


async def test_triton_finds_no_file_at_another_path_than_extraction_path(host, built, tmp_path):
    folder, expected = built
    files = await extract(host, folder, tmp_path / "node", Path("/nowhere/triton"))
    assert look_up(files) == dict.fromkeys(expected)
