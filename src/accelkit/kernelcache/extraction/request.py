"""The request and the result of an extraction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from accelkit.kernelcache.compatibility.verdicts import CompatibilityVerdicts, NodeHardware
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
        fresh: whether this call extracted the cache; False if it already existed.
        verdicts: the verdicts for the node's cards; None if no cards were given.
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
        base: the folder in which the folder of the cache is created.
        policies: the signer policies; None only if the caller explicitly disabled verification.
        namespace: the namespace for which the policies are selected; None if the image is not used in a specific
            namespace.
        mount_path: the path at which workloads mount the cache; None for the path of its folder.
        limits: the limits on the size of the cache.
        node: the node with the cards that the cache must fit; None to extract the cache without checking cards.
        clock: a function that returns the current time.
        lock_seconds: the maximum time to wait for another process that extracts the same image, in seconds.
        protect: whether to protect the files against writes before they are visible. If this is not possible, for
            example without the required capability, the extraction still succeeds, and `is_protected` returns False.
        verdict_ttl_seconds: the maximum age of an accepted verification, in seconds, in addition to the limit in the
            policies; None to apply only the limit in the policies.
    """

    image: Reference
    base: Path
    policies: SignerPolicies | None
    namespace: str | None = None
    mount_path: str | None = None
    limits: Limits = field(default_factory=Limits)
    node: NodeHardware | None = None
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    lock_seconds: float = LOCK_SECONDS
    verdict_ttl_seconds: float | None = None
    protect: bool = False

    def accepts(self, record: CompletionRecord) -> bool:
        """Return whether the recorded verification of a cache is still valid. No request is sent to the registry.

        The verification is valid if the policies have not changed and it is recent.
        """
        return self.policies is None or (self.policy_digest == record.policy_digest and self.is_recent(record))

    def is_recent(self, record: CompletionRecord) -> bool:
        """Return whether the signatures of an extracted cache were fetched recently enough.

        If the time is in the future, a clock is wrong. The age is then unknown, so the record is not treated as recent.
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
        """The digest of the policies, the namespace and the name of the image; None if there are no policies.

        The digest includes the name because it determines which policies apply, and the same image may have several
        names.
        """
        return f"{self.policies.digest}/{self.namespace or ''}/{self.image.name}" if self.policies is not None else None
