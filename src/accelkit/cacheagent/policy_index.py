"""Index of the cluster's signer policies, keyed by image."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from accelkit.cacheagent.planning.desired_caches import DesiredCache, Refusal
from accelkit.cacheagent.planning.world import ImagePolicies
from accelkit.cacheagent.preparation import build_request
from accelkit.gkm.conditions import Reason
from accelkit.kernelcache.signatures import SignerPolicies
from accelkit.kernelcache.signatures.policy_objects import PolicySet, parse_policies


class PolicyIndex:
    """Signer policies in the cluster, which are parsed once after each change.

    Args:
        root: folder of the store.
        trusted_root: path of Sigstore's trusted root (JSON); None for the trusted root in the installed release of
            sigstore.

    Raises:
        ConfigurationError: the trusted root cannot be read.
    """

    def __init__(self, root: Path, trusted_root: Path | None = None) -> None:
        self._root = root
        self._trusted_root = trusted_root
        self._set: PolicySet = parse_policies((), trusted_root)
        # Results, keyed by image and namespace, because the same policies apply to many caches.
        self._narrowed: dict[tuple[str, str], SignerPolicies] = {}

    def take(self, policies: Mapping[str, object]) -> None:
        """Replace the signer policies.

        Args:
            policies: spec of each SignerPolicy, keyed by name.
        """
        self._set = parse_policies(policies.items(), self._trusted_root)
        self._narrowed.clear()

    def narrow(self, desired: DesiredCache) -> SignerPolicies:
        """Return the policies that cover the image of a cache, which must have an image."""
        assert desired.image is not None  # noqa: S101 - callers have checked it
        at = desired.image.name, desired.namespace
        if at not in self._narrowed:
            self._narrowed[at] = self._set.narrow(desired.image, desired.namespace or None)
        return self._narrowed[at]

    def find_image_policies(self, desired_caches: Iterable[DesiredCache]) -> dict[str, ImagePolicies]:
        """Return the policies that apply to each cache with a digest, keyed by cache key."""
        return {
            desired.key: self._find_image_policies(desired) for desired in desired_caches if desired.image is not None
        }

    def _find_image_policies(self, desired: DesiredCache) -> ImagePolicies:
        assert desired.image is not None  # noqa: S101 - as above
        namespace = desired.namespace or None
        covering = self.narrow(desired)
        policies_of_image = ImagePolicies(
            build_request(self._root, desired, covering).policy_digest or "",
            verdict_seconds=covering.find_verdict_ttl(desired.image, namespace) if covering.policies else math.inf,
        )
        broken = self._set.find_broken(desired.image, namespace)
        if broken is not None:
            return replace(policies_of_image, undecided=Refusal(Reason.POLICY_UNREADABLE, broken))
        if not covering.policies:
            where = f" for namespace {namespace}" if namespace else ""
            return replace(
                policies_of_image,
                refusal=Refusal(Reason.NOT_COVERED, f"no SignerPolicy covers {desired.image.name}{where}"),
            )
        return policies_of_image
