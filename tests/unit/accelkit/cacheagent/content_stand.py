"""A store with caches as extractions leave them, and who looks at them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from agent_worlds import LABELS, MOUNT, A, folder

from accelkit.cacheagent.disk.content import ContentChecks
from accelkit.cacheagent.disk.store import Store
from accelkit.cacheagent.metrics import Metrics
from accelkit.kernelcache.extraction import CompletionRecord
from accelkit.kernelcache.extraction.integrity.content import FileContent, digest_contents
from accelkit.kernelcache.extraction.record import read_boot_id, read_record, write_record

KERNEL = b"kernel"


class ContentStand:
    """A store with caches, and who looks at them."""

    def __init__(self, root: Path) -> None:
        self.root, self.metrics, self.store = root, Metrics(), Store(root)
        self.woken = 0
        self.looks = self.start()

    def start(self) -> ContentChecks:
        """An agent that has just been started, as far as looks are concerned."""
        return ContentChecks(self.store, self.metrics, on_change=self.wake)

    def wake(self) -> None:
        self.woken += 1

    def put(self, digest: str = A, **changes: Any) -> Path:
        """A cache as an extraction leaves it; returns the path of its kernel."""
        path = self.root / folder(digest)
        (path / "cache").mkdir(parents=True)
        (path / "cache" / "k.cubin").write_bytes(KERNEL)
        record = CompletionRecord(
            image=f"q.io/team/add@{digest}", format="triton", mount_path=MOUNT, files=1, size_bytes=len(KERNEL),
            policy_digest="p", signatures=("ci",), extracted_at="", labels=LABELS, boot=read_boot_id() or "",
            content_digest=digest_contents({"k.cubin": FileContent.of(KERNEL)}),
        )  # fmt: skip
        write_record(path, msgspec.structs.replace(record, **changes))
        return path / "cache" / "k.cubin"

    def record(self, digest: str = A) -> CompletionRecord:
        found = read_record(self.root / folder(digest))
        assert found is not None
        return found

    async def look(self) -> None:
        await self.store.refresh()
        await self.looks.check_all()

    def count(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, labels)
