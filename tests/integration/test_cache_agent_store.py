"""What the cache agent does about those who write into its store: it lets nobody, and where it cannot, it finds it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cache_agent_bed import Bed
from cache_agent_stand import admit_agents, image, open_bed
from cache_definitions import CacheKinds
from conftest import Sandbox
from registries.hostile import HostileRegistry

from accelkit.kernelcache.extraction.integrity.protection import ProtectionState, probe

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def kubeconfig(control_plane: Sandbox, defined: CacheKinds) -> Path:
    """Of a ServiceAccount that may do what an agent has to, and nothing else."""
    return admit_agents(control_plane, "cache-agent-store")


@pytest.fixture
async def bed(control_plane: Sandbox, kubeconfig: Path, tmp_path: Path) -> AsyncIterator[Bed]:
    async with open_bed(control_plane, kubeconfig, tmp_path) as opened:
        yield opened


async def test_what_somebody_wrote_into_the_store_is_found_told_and_extracted_anew(
    bed: Bed, hostile_registry: HostileRegistry, tmp_path: Path
):
    host = hostile_registry.host
    made = await image(host, tmp_path, "team/add")
    await bed.create(host)
    bed.start("--look-again-seconds", "1", protects=False)
    await bed.cache(f"{host}/team/add:v1", made.digest)
    await bed.until("Ready", made.digest)
    (bed.link() / "evil.so").write_bytes(b"evil")
    found = await bed.until("Degraded", made.digest, reason="ContentChanged")
    assert "were not those that were extracted" in found["message"]
    await bed.until("Ready", made.digest)
    await bed.until_true(bed.link().is_dir)
    assert not (bed.link() / "evil.so").exists()
    assert bed.log.read_text().count("are not protected against pods") == 1


async def test_where_the_agent_may_nobody_writes_its_caches_and_deletion_goes_on(
    bed: Bed, hostile_registry: HostileRegistry, tmp_path: Path
):
    if probe(tmp_path).state is not ProtectionState.PROTECTED:
        pytest.skip("no file can be made immutable here")
    host = hostile_registry.host
    made = await image(host, tmp_path, "team/add")
    await bed.create(host)
    bed.start()
    await bed.cache(f"{host}/team/add:v1", made.digest)
    await bed.until("Ready", made.digest)
    with pytest.raises(PermissionError):
        (bed.link() / "evil.so").touch()
    assert "not protected" not in bed.log.read_text()
    await bed.delete()
    # What is displaced is deleted a moment later.
    await bed.until_true(lambda: not bed.folders() and not list(bed.store.glob(".sha256-*")))
