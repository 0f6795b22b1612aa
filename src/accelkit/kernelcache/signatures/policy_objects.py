"""Policies from the SignerPolicy objects of a cluster, which anybody who may write them may have written wrongly.

A wrong one never weakens the others: as long as nobody corrects it, the images that it may cover are refused.
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
from accelkit.kernelcache.signatures.policy.content import PolicyContent
from accelkit.kernelcache.signatures.policy.policies import SignerPolicies, SignerPolicy
from accelkit.kernelcache.signatures.policy.spec import (
    MAX_POLICY_BYTES,
    PolicySpec,
    build_policy,
    read_images,
    read_namespaces,
)
from accelkit.kernelcache.signatures.trust import TrustRoot
from accelkit.texts import shorten

_EVERYTHING = ("**",)
_MAX_WHY = 512


class _Coverage(msgspec.Struct, frozen=True):
    """What of a spec says which images it covers, whatever else is wrong with it."""

    images: object = None
    namespaces: object = None


prepare(PolicySpec, _Coverage)


@dataclass(frozen=True)
class PolicySet:
    """The policies of a cluster.

    Attributes:
        policies: those that can be used, sorted by name; its digest is of all objects, broken ones too.
        broken: why each of the others cannot, with the next step, by name.
    """

    policies: SignerPolicies
    broken: Mapping[str, str]
    _covered: tuple[SignerPolicy, ...]
    _digests: Mapping[str, str]

    def find_broken(self, image: Reference, namespace: str | None) -> str | None:
        """Return what is wrong with a broken policy that may cover an image; None where none may.

        Args:
            image: by tag or digest.
            namespace: for which namespace; None for no particular one.
        """
        return next((self.broken[each.name] for each in self._covered if each.covers(image, namespace)), None)

    def narrow(self, image: Reference, namespace: str | None) -> SignerPolicies:
        """Return the policies that cover an image alone; their digest changes only where one of these does.

        The verdict on the image is the same as with all of them.

        Args:
            image: by tag or digest.
            namespace: for which namespace; None for no particular one.
        """
        content = PolicyContent()
        content.add(self._digests[""].encode())
        covering = self.policies.select(image, namespace)
        for each in covering:
            content.add(self._digests[each.name].encode())
        return SignerPolicies(covering, self.policies.trust, content.digest)


def parse_policies(objects: Iterable[tuple[str, object]], trusted_root: Path | None = None) -> PolicySet:
    """Read the policies of a cluster; what is wrong with one of them is told, and the others are read.

    Args:
        objects: name and `spec` of each SignerPolicy, in any order.
        trusted_root: JSON of Sigstore's trusted root; None for that of the public instance, as the installed release of
            sigstore knows it. Nothing is fetched.

    Raises:
        ConfigurationError: the trusted root cannot be read.
    """
    trust = TrustRoot(trusted_root)
    of_root = PolicyContent()
    of_root.add_root(trust, trusted_root)
    digests = {"": of_root.digest}
    policies: list[SignerPolicy] = []
    broken: dict[str, str] = {}
    covered: list[SignerPolicy] = []
    # By name, so that the digest does not depend on the order in which objects come.
    named = dict(sorted(objects, key=lambda each: each[0]))
    for name, spec in named.items():
        digests[name] = _compute_digest(name, spec)
        try:
            policies.append(_read_policy(name, spec))
        except ConfigurationError as exc:
            broken[name] = shorten(str(exc), _MAX_WHY)
            covered.append(_read_coverage(name, spec))
    everything = PolicyContent()
    for digest in digests.values():
        everything.add(digest.encode())
    whole = SignerPolicies(tuple(policies), trust, everything.digest)
    return PolicySet(whole, MappingProxyType(broken), tuple(covered), MappingProxyType(digests))


def _read_policy(name: str, spec: object) -> SignerPolicy:
    try:
        if len(msgspec.json.encode(spec)) > MAX_POLICY_BYTES:
            raise ConfigurationError(f"signer policy {name} is larger than {MAX_POLICY_BYTES} bytes; split it")
        read = msgspec.convert(spec, PolicySpec)
    except msgspec.ValidationError as exc:
        raise ConfigurationError(
            f"signer policy {name} is wrong: {exc}", next_step=f"correct it: kubectl edit signerpolicy {name}"
        ) from exc
    return build_policy(name, read, _refuse_file)


def _refuse_file(name: str, where: str) -> NoReturn:
    raise ConfigurationError(
        f"{where} names the file {shorten(name)!r}, and an object of a cluster has no files",
        next_step="write what it holds, which is PEM text, into data",
    )


def _read_coverage(name: str, spec: object) -> SignerPolicy:
    """Return what a broken policy may cover: everything where it does not say so in a way that can be read."""
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
        # Also where it names none, which means all.
        namespaces = ("*",)
    return SignerPolicy(name, images, (), namespaces)


def _compute_digest(name: str, spec: object) -> str:
    content = PolicyContent()
    content.add(name.encode())
    content.add(msgspec.json.encode(spec, order="deterministic"))
    return content.digest
