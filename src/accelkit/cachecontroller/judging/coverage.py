"""Selection of the SignerPolicies that cover an image. Changes to other policies do not cause a new evaluation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from accelkit.cachecontroller.deciding.judgement import Question, Refused, read_image
from accelkit.gkm.conditions import Reason
from accelkit.gkm.objects import Cache
from accelkit.kernelcache.oci.reference import Reference
from accelkit.kernelcache.signatures import SignerPolicies
from accelkit.kernelcache.signatures.policy_objects import PolicySet, parse_policies


class Coverage:
    """SignerPolicies of the cluster, which are parsed after each change.

    Args:
        policies: function that returns the specs of SignerPolicies, keyed by name. It returns a new mapping after each
            change.
        trusted_root: path of Sigstore's trusted root (JSON); None for the trusted root of the release.

    Raises:
        ConfigurationError: the trusted root cannot be read.
    """

    def __init__(self, policies: Callable[[], Mapping[str, dict[str, Any]]], trusted_root: Path | None = None) -> None:
        self._policies = policies
        self._trusted_root = trusted_root
        self._parsed: Mapping[str, dict[str, Any]] = {}
        self._set = parse_policies((), trusted_root)

    def find_question(self, cache: Cache) -> Question | Refused:
        """Return the question to evaluate for a cache, or the reason why the cache's image is not evaluated."""
        image = read_image(cache)
        if isinstance(image, Refused):
            return image
        parsed, namespace = self._parse(), cache.metadata.namespace or None
        if (broken := parsed.find_broken(image, namespace)) is not None:
            return Refused(Reason.POLICY_UNREADABLE, broken, retryable=True)
        narrowed = parsed.narrow(image, namespace)
        if not narrowed.policies:
            where = f" for namespace {namespace}" if namespace else ""
            text = f"no SignerPolicy covers {image.name}{where}; add a SignerPolicy with the accepted signers"
            return Refused(Reason.NOT_COVERED, text)
        secrets = tuple(each.name for each in cache.spec.image_pull_secrets if each.name)
        return Question(cache.spec.image, narrowed.digest, secrets)

    def find_policies(self, image: Reference, namespace: str | None) -> SignerPolicies:
        """Return the policies that cover an image."""
        return self._parse().narrow(image, namespace)

    def _parse(self) -> PolicySet:
        if (policies := self._policies()) is not self._parsed:
            self._set, self._parsed = parse_policies(policies.items(), self._trusted_root), policies
        return self._set
