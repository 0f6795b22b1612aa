"""The cluster's signer policies, as they stand to each cache's image."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from accelkit.cacheagent.planning.wishes import Refusal, Wish
from accelkit.cacheagent.planning.world import Standing
from accelkit.cacheagent.preparation import build_request
from accelkit.gkm.conditions import Reason
from accelkit.kernelcache.signatures import SignerPolicies
from accelkit.kernelcache.signatures.policy_objects import PolicySet, parse_policies


class Standings:
    """Policies, parsed once for each change of them.

    Args:
        root: of the store.
        trusted_root: JSON of Sigstore's trusted root; None for the one that comes with the release.

    Raises:
        ConfigurationError: the trusted root cannot be read.
    """

    def __init__(self, root: Path, trusted_root: Path | None = None) -> None:
        self._root = root
        self._trusted_root = trusted_root
        self._set: PolicySet = parse_policies((), trusted_root)
        # By image and namespace; many caches share them.
        self._narrowed: dict[tuple[str, str], SignerPolicies] = {}

    def take(self, policies: Mapping[str, object]) -> None:
        """Take over the policies of the cluster: name and spec."""
        self._set = parse_policies(policies.items(), self._trusted_root)
        self._narrowed.clear()

    def narrow(self, wish: Wish) -> SignerPolicies:
        """Return the policies that cover a cache's image, which has to be there."""
        assert wish.image is not None  # noqa: S101 - callers have looked
        at = wish.image.name, wish.namespace
        if at not in self._narrowed:
            self._narrowed[at] = self._set.narrow(wish.image, wish.namespace or None)
        return self._narrowed[at]

    def stand(self, wishes: Iterable[Wish]) -> dict[str, Standing]:
        """Return how the policies stand to each cache that names a digest."""
        return {wish.key: self._stand(wish) for wish in wishes if wish.image is not None}

    def _stand(self, wish: Wish) -> Standing:
        assert wish.image is not None  # noqa: S101 - as above
        namespace = wish.namespace or None
        covering = self.narrow(wish)
        standing = Standing(
            build_request(self._root, wish, covering).policy_digest or "",
            believed_seconds=covering.find_verdict_ttl(wish.image, namespace) if covering.policies else math.inf,
        )
        broken = self._set.find_broken(wish.image, namespace)
        if broken is not None:
            return replace(standing, undecided=Refusal(Reason.POLICY_UNREADABLE, broken))
        if not covering.policies:
            where = f" for namespace {namespace}" if namespace else ""
            return replace(
                standing, refusal=Refusal(Reason.NOT_COVERED, f"no SignerPolicy covers {wish.image.name}{where}")
            )
        return standing
