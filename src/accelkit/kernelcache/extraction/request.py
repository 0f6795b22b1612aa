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
        place: the place of the cache.
        record: the record of its extraction and its checks.
        fresh: whether this call extracted it; False if it existed before.
        verdicts: the verdicts on the node's cards; None if no cards were given.
    """

    place: Place
    record: CompletionRecord
    fresh: bool
    verdicts: CompatibilityVerdicts | None = None


@dataclass(frozen=True)
class ExtractionRequest:
    """The image to extract, with the options of the extraction.

    Attributes:
        image: the image, by tag or digest.
        base: the folder in which the folder of the digest is created.
        policies: the signer policies; None only if the caller explicitly disabled verification.
        namespace: the namespace for which the policies are selected; None for no particular namespace.
        mount_path: the path at which workloads mount the cache; None for the path of its folder.
        limits: the limits on its size.
        node: the node whose cards it must fit; None to extract it for any cards.
        clock: returns the current time.
        lock_seconds: the longest wait for another process that extracts the same image.
        protect: whether to protect the files against writes before they are visible. If the file system or a missing
            capability prevents this, the extraction succeeds, and only `is_protected` reports the missing protection.
        verdict_ttl_seconds: the maximum age of an accepted verification, in addition to the limit of the policies; None
            for the limit of the policies only.
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

    def accepts(self, record: CompletionRecord) -> bool:
        """Return whether the recorded verification of a cache still applies, without a request to the registry.

        It applies if the policies are the same and the verification is recent.
        """
        return self.policies is None or (self.policy_digest == record.policy_digest and self.is_recent(record))

    def is_recent(self, record: CompletionRecord) -> bool:
        """Return whether the signatures of an extracted cache were fetched recently enough.

        A time in the future means that a clock is wrong, so the age is unknown and the record is not recent.
        """
        if self.policies is None:
            return True
        ttl: float = self.policies.find_verdict_ttl(self.image, self.namespace)
        if self.verdict_ttl_seconds is not None:
            ttl = min(ttl, self.verdict_ttl_seconds)
        try:
            age = (self.clock() - datetime.fromisoformat(record.verified_at)).total_seconds()
        except (ValueError, TypeError):
            return False
        return 0 <= age < ttl

    @property
    def policy_digest(self) -> str | None:
        """The digest of the policies, with the namespace and the name of the image; None if there are no policies.

        The name is included because it decides which policies apply, and one digest may have several names.
        """
        return f"{self.policies.digest}/{self.namespace or ''}/{self.image.name}" if self.policies is not None else None
