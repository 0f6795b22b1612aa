"""Signer policies from the SignerPolicy objects in a cluster, some of which may be invalid.

An invalid policy never weakens other policies: until it is corrected, all images that it may cover are rejected.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NoReturn

import msgspec

from accelkit.decoding import prepare
from accelkit.errors import ConfigurationError
from accelkit.kernelcache.oci.reference import Reference
from accelkit.kernelcache.signatures.signer_policy.content import PolicyContent
from accelkit.kernelcache.signatures.signer_policy.policies import SignerPolicies, SignerPolicy
from accelkit.kernelcache.signatures.signer_policy.spec import (
    MAX_POLICY_BYTES,
    PolicySpec,
    build_policy,
    read_images,
    read_namespaces,
)
from accelkit.kernelcache.signatures.trust import TrustRoot
from accelkit.texts import shorten

_EVERYTHING = ("**",)
_MAX_CAUSE = 512


class _Coverage(msgspec.Struct, frozen=True):
    """The fields of a spec that determine the covered images, used if other fields are invalid."""

    images: object = None
    namespaces: object = None


prepare(PolicySpec, _Coverage)


@dataclass(frozen=True)
class PolicySet:
    """The policies of a cluster.

    Attributes:
        policies: the valid policies, sorted by name. Their digest also covers the invalid objects.
        broken: the error in each invalid policy and the next step, keyed by policy name.
    """

    policies: SignerPolicies
    broken: Mapping[str, str]
    _covered: tuple[SignerPolicy, ...]
    _digests: Mapping[str, str]

    def find_broken(self, image: Reference, namespace: str | None) -> str | None:
        """Return the error in an invalid policy that may cover an image; None if there is no such policy.

        Args:
            image: the image, by tag or digest.
            namespace: the namespace in which the image is used; None for no specific namespace.
        """
        return next((self.broken[each.name] for each in self._covered if each.covers(image, namespace)), None)

    def narrow(self, image: Reference, namespace: str | None) -> SignerPolicies:
        """Return only the policies that cover an image, with a digest that depends only on these policies.

        The verdict on the image is the same as if all policies were evaluated.

        Args:
            image: the image, by tag or digest.
            namespace: the namespace in which the image is used; None for no specific namespace.
        """
        content = PolicyContent()
        content.add(self._digests[""].encode())
        covering = self.policies.select(image, namespace)
        for each in covering:
            content.add(self._digests[each.name].encode())
        return SignerPolicies(covering, self.policies.trust, content.digest)


def parse_policies(objects: Iterable[tuple[str, object]], trusted_root: Path | None = None) -> PolicySet:
    """Return the policies of a cluster and the errors in invalid policies, without network requests.

    Args:
        objects: the name and the `spec` of each SignerPolicy, in any order.
        trusted_root: the JSON file of a Sigstore trusted root; None for the trusted root of the public instance that
            the installed release of sigstore contains.

    Raises:
        ConfigurationError: the trusted root cannot be read.
    """
    trust = TrustRoot(trusted_root)
    root_content = PolicyContent()
    root_content.add_root(trust, trusted_root)
    digests = {"": root_content.digest}
    policies: list[SignerPolicy] = []
    broken: dict[str, str] = {}
    covered: list[SignerPolicy] = []
    # The objects are sorted by name, so that the digest does not depend on their order.
    named = dict(sorted(objects, key=lambda each: each[0]))
    for name, spec in named.items():
        digests[name] = _compute_digest(name, spec)
        try:
            policies.append(_read_policy(name, spec))
        except ConfigurationError as exc:
            broken[name] = shorten(str(exc), _MAX_CAUSE)
            covered.append(_read_coverage(name, spec))
    content = PolicyContent()
    for digest in digests.values():
        content.add(digest.encode())
    valid = SignerPolicies(tuple(policies), trust, content.digest)
    return PolicySet(valid, MappingProxyType(broken), tuple(covered), MappingProxyType(digests))


def _read_policy(name: str, spec: object) -> SignerPolicy:
    try:
        if len(msgspec.json.encode(spec)) > MAX_POLICY_BYTES:
            raise ConfigurationError(f"signer policy {name} is larger than {MAX_POLICY_BYTES} bytes; split it")
        converted = msgspec.convert(spec, PolicySpec)
    except msgspec.ValidationError as exc:
        raise ConfigurationError(
            f"signer policy {name} is invalid: {exc}", next_step=f"correct it: kubectl edit signerpolicy {name}"
        ) from exc
    return build_policy(name, converted, _refuse_file)


def _refuse_file(name: str, where: str) -> NoReturn:
    raise ConfigurationError(
        f"{where} names the file {shorten(name)!r}, but a SignerPolicy object cannot use files",
        next_step="write the PEM text of the file to the field data",
    )


def _read_coverage(name: str, spec: object) -> SignerPolicy:
    """Return a policy that covers the same images as an invalid policy. Unreadable fields are treated as wildcards."""
    try:
        coverage = msgspec.convert(spec, _Coverage)
    except msgspec.ValidationError:
        return SignerPolicy(name, _EVERYTHING, ())
    try:
        images = read_images(msgspec.convert(coverage.images, list[str]), name)
    except (ConfigurationError, msgspec.ValidationError):
        images = _EVERYTHING
    try:
        namespaces = read_namespaces(msgspec.convert(coverage.namespaces, list[str]), name)
    except (ConfigurationError, msgspec.ValidationError):
        # A policy without namespaces applies to all namespaces.
        namespaces = ("*",)
    return SignerPolicy(name, images, (), namespaces)


def _compute_digest(name: str, spec: object) -> str:
    content = PolicyContent()
    content.add(name.encode())
    content.add(msgspec.json.encode(spec, order="deterministic"))
    return content.digest
