"""The request and the result of an extraction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from accelkit.kernelcache.compatibility.verdicts import CompatibilityVerdicts, NodeFacts
from accelkit.kernelcache.extraction.folder import Place
from accelkit.kernelcache.extraction.record import CompletionRecord
from accelkit.kernelcache.extraction.rules import Limits
from accelkit.kernelcache.oci.reference import Reference
from accelkit.kernelcache.signatures import SignerPolicies

LOCK_SECONDS = 900.0


@dataclass(frozen=True)
class ExtractionResult:
    """An extracted cache.

    Attributes:
        place: where it lies.
        record: what was checked and written.
        fresh: whether it was extracted now, and not found complete.
        verdicts: on the node's cards; None where no cards were given.
    """

    place: Place
    record: CompletionRecord
    fresh: bool
    verdicts: CompatibilityVerdicts | None = None


@dataclass(frozen=True)
class ExtractionRequest:
    """What to extract, and how.

    Attributes:
        image: by tag or digest.
        base: the folder that gets the digest-named one.
        policies: who may have signed; None only where the caller said so in as many words.
        namespace: for which namespace the policies are asked; None for no particular one.
        mount_path: where workloads will see the cache; None for where it is extracted.
        limits: on its size.
        node: the cards that it is for; None to extract it whatever they are.
        clock: now.
        lock_seconds: how long somebody else's extraction of the same image is waited for.
    """

    image: Reference
    base: Path
    policies: SignerPolicies | None
    namespace: str | None = None
    mount_path: str | None = None
    limits: Limits = field(default_factory=Limits)
    node: NodeFacts | None = None
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    lock_seconds: float = LOCK_SECONDS

    @property
    def policy_digest(self) -> str | None:
        """Of the policies, and of the namespace and the name they were asked for; None where there are none.

        The name decides which policies count, and one digest may go by several.
        """
        return f"{self.policies.digest}/{self.namespace or ''}/{self.image.name}" if self.policies is not None else None
