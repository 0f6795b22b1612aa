"""What the cache agent does about those who write into its store: it lets nobody, and where it cannot, it finds it."""

from __future__ import annotations

import pytest
from cache_agent_bed import Bed
from cache_agent_stand import deliver

from accelkit.kernelcache.extraction.integrity.protection import ProtectionState, probe

pytest_plugins = ["cache_fixtures"]
pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


async def test_changed_content_in_store_is_reported_and_extracted_again(bed: Bed):
    made = await deliver(bed, "--look-again-seconds", "1", protects=False)
    (bed.link() / "evil.so").write_bytes(b"evil")
    found = await bed.until("Degraded", made.digest, reason="ContentChanged")
    assert "differed from the extracted files" in found["message"]
    await bed.until("Ready", made.digest)
    await bed.until_true(bed.link().is_dir)
    assert not (bed.link() / "evil.so").exists()
    assert bed.log.read_text().count("are not protected against pods") == 1


async def test_protected_cache_cannot_be_written_and_can_be_deleted(bed: Bed):
    if probe(bed.folder).state is not ProtectionState.PROTECTED:
        pytest.skip("no file can be made immutable here")
    await deliver(bed)
    with pytest.raises(PermissionError):
        (bed.link() / "evil.so").touch()
    assert "not protected" not in bed.log.read_text()
    await bed.delete()
    # What is displaced is deleted a moment later.
    await bed.until_true(lambda: not bed.folders() and not list(bed.store.glob(".sha256-*")))
