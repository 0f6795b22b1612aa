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
        protect: whether to let nobody write the files from the moment they are visible, where file system and rights
            allow; where they do not, `is_protected` says so and nothing else.
        verdict_ttl_seconds: how long an earlier verification is believed at most; None for as long as the policies say.
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
    verdict_ttl_seconds: float | None = None
    protect: bool = False

    def believes(self, record: CompletionRecord) -> bool:
        """Whether what was verified of a cache that is there still counts, without a look at the registry.

        It was by the same policies, and not too long ago.
        """
        return self.policies is None or (self.policy_digest == record.policy_digest and self.is_recent(record))

    def is_recent(self, record: CompletionRecord) -> bool:
        """Whether the signatures of a cache that is there were looked for not too long ago.

        A time that lies ahead says that a clock is wrong, so that nothing is known of its age.
        """
        if self.policies is None:
            return True
        believed: float = self.policies.find_verdict_ttl(self.image, self.namespace)
        if self.verdict_ttl_seconds is not None:
            believed = min(believed, self.verdict_ttl_seconds)
        try:
            age = (self.clock() - datetime.fromisoformat(record.verified_at)).total_seconds()
        except (ValueError, TypeError):
            return False
        return 0 <= age < believed

    @property
    def policy_digest(self) -> str | None:
        """Of the policies, and of the namespace and the name they were asked for; None where there are none.

        The name decides which policies count, and one digest may go by several.
        """
        return f"{self.policies.digest}/{self.namespace or ''}/{self.image.name}" if self.policies is not None else None
