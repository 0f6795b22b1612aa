r"""Signer policies: who may sign which images, for which namespaces. Nothing is trusted without one.

A file holds one or more YAML documents:

    apiVersion: accelkit.io/v1alpha1
    kind: SignerPolicy
    metadata: {name: acme}
    spec:
      images: ["quay.io/acme/**"]
      namespaces: ["*"]                 # without it: all
      signers:                          # one of them is enough
        - name: ci
          keyless: {issuer: https://token.actions.githubusercontent.com, subjectPattern: 'https://github\\.com/acme/.*'}
        - name: release
          key: {file: release.pub}      # or data: the PEM text
          transparencyLog: notRequired  # without it: required
        - name: corporate
          ca: {file: ca.pem, subject: build@acme.example}

Where several policies cover an image, each of them must be satisfied: a new policy can only ask for more.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import msgspec
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from accelkit import __version__
from accelkit.errors import ConfigurationError
from accelkit.kernelcache.oci.reference import Reference
from accelkit.kernelcache.signatures.findings import RejectedError
from accelkit.kernelcache.signatures.keys import PublicKey, load_public_keys
from accelkit.kernelcache.signatures.matching import (
    MAX_PATTERN_LENGTH,
    TextMatch,
    compile_glob,
    parse_image_pattern,
    parse_text_match,
)
from accelkit.kernelcache.signatures.trust import Authorities, TrustRoot, load_authorities

MAX_POLICY_BYTES = 1 << 20
_NEXT = "see docs/signer-policies.md for the format"


@dataclass(frozen=True)
class Signer:
    """Somebody who may sign.

    Attributes:
        name: for messages.
        log_required: whether an entry of the transparency log must prove when it was signed.
        annotations: what the signature itself must say beside the digest.
        issuer: of the identity; None for keys, and for authorities that are trusted as a whole.
        subject: of the certificate; None as above.
        keys: public keys, one of which must have signed.
        authorities: a private authority; None for keys and for Sigstore's own.
    """

    name: str
    log_required: bool = True
    annotations: dict[str, str] = field(default_factory=dict)
    issuer: TextMatch | None = None
    subject: TextMatch | None = None
    keys: tuple[PublicKey, ...] = ()
    authorities: Authorities | None = None

    @property
    def keyless(self) -> bool:
        """Whether the certificate comes from Sigstore's certificate authority."""
        return not self.keys and self.authorities is None


@dataclass(frozen=True)
class SignerPolicy:
    """Who may sign some images."""

    name: str
    images: tuple[str, ...]
    signers: tuple[Signer, ...]
    namespaces: tuple[str, ...] = ("*",)

    def covers(self, image: Reference, namespace: str | None = None) -> bool:
        """Whether this policy speaks of an image, for a namespace; None means no particular one."""
        if not any(compile_glob(pattern).fullmatch(image.name) for pattern in self.images):
            return False
        if namespace is None:
            return not all(pattern.strip("*") for pattern in self.namespaces)
        return any(compile_glob(pattern).fullmatch(namespace) for pattern in self.namespaces)


@dataclass(frozen=True)
class SignerPolicies:
    """All policies, with the trusted root that they share.

    Attributes:
        policies: at least one.
        trust: Sigstore's keys and authorities.
        digest: of everything that decides, so that a verdict can be kept with what it rests on.
    """

    policies: tuple[SignerPolicy, ...]
    trust: TrustRoot
    digest: str = ""

    def select(self, image: Reference, namespace: str | None = None) -> tuple[SignerPolicy, ...]:
        """Return the policies that speak of an image; none means that it is refused."""
        return tuple(policy for policy in self.policies if policy.covers(image, namespace))


class _Material(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    file: str = ""
    data: str = ""
    issuer: str = ""
    issuer_pattern: str = ""
    subject: str = ""
    subject_pattern: str = ""


class _Signer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    name: str = ""
    keyless: _Material | None = None
    key: _Material | None = None
    ca: _Material | None = None
    transparency_log: Literal["required", "notRequired"] = "required"
    annotations: dict[str, str] = {}


class _Spec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    images: list[str]
    signers: list[_Signer]
    namespaces: list[str] = msgspec.field(default_factory=lambda: ["*"])


class _Metadata(msgspec.Struct, frozen=True):
    name: str


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    api_version: Literal["accelkit.io/v1alpha1"]
    kind: Literal["SignerPolicy"]
    metadata: _Metadata
    spec: _Spec


def load_policies(path: Path, trusted_root: Path | None = None) -> SignerPolicies:
    """Read a file of policies, and the trusted root they rest on.

    Args:
        path: YAML.
        trusted_root: JSON of Sigstore's trusted root; without it, that of the public instance as the installed
            release of sigstore knows it. Nothing is fetched.

    Raises:
        ConfigurationError: the file cannot be read, or a policy in it is wrong.
    """
    try:
        content = path.read_bytes()
        if len(content) > MAX_POLICY_BYTES:
            raise ConfigurationError(f"{path} is larger than {MAX_POLICY_BYTES} bytes, too large for a policy")
        documents = [each for each in YAML(typ="safe", pure=True).load_all(content.decode()) if each is not None]
    except (OSError, UnicodeDecodeError, YAMLError) as exc:
        why = " ".join(str(exc).split())
        raise ConfigurationError(f"the signer policy {path} cannot be read: {why}", next_step=_NEXT) from exc
    if not documents:
        raise ConfigurationError(f"{path} holds no signer policy", next_step=_NEXT)
    # What was verified by another release may have been verified less well.
    seen = _Seen(__version__.encode() + b"\n" + content)
    policies = tuple(_read_policy(document, path, seen) for document in documents)
    if len({each.name for each in policies}) < len(policies):
        raise ConfigurationError(f"{path} has two policies of the same name", next_step="give each a name of its own")
    trust = TrustRoot(trusted_root)
    if trusted_root is None:
        # Its root comes with the release.
        seen.add(f"sigstore {version('sigstore')}".encode())
    else:
        try:
            seen.add(trust.content)
        except RejectedError as exc:
            raise ConfigurationError(exc.message) from exc
    return SignerPolicies(policies, trust, seen.digest)


class _Seen:
    """What was read, in its order; `digest` tells it from everything else that might have been."""

    def __init__(self, content: bytes) -> None:
        self._hash = hashlib.sha256()
        self.add(content)

    def add(self, content: bytes) -> None:
        # Hashes have one length, so that nothing can move from one file to the next unnoticed.
        self._hash.update(hashlib.sha256(content).digest())

    @property
    def digest(self) -> str:
        return f"sha256:{self._hash.hexdigest()}"


def _read_policy(document: object, path: Path, seen: _Seen) -> SignerPolicy:
    try:
        read = msgspec.convert(document, _Document)
    except msgspec.ValidationError as exc:
        raise ConfigurationError(f"a signer policy in {path} is wrong: {exc}", next_step=_NEXT) from exc
    where = f"signer policy {read.metadata.name}"
    spec = read.spec
    if not spec.images or not spec.signers or not spec.namespaces:
        raise ConfigurationError(f"{where} names no images, no namespaces or no signers", next_step=_NEXT)
    for name in (*spec.images, *spec.namespaces):
        if not name or len(name) > MAX_PATTERN_LENGTH:
            raise ConfigurationError(
                f"{where} has a pattern that is empty or longer than {MAX_PATTERN_LENGTH} characters"
            )
    images = tuple(parse_image_pattern(each, where) for each in spec.images)
    signers = tuple(
        _read_signer(each, f"{where}, signer {number}", path, seen) for number, each in enumerate(spec.signers, 1)
    )
    return SignerPolicy(read.metadata.name, images, signers, tuple(spec.namespaces))


def _read_signer(read: _Signer, where: str, path: Path, seen: _Seen) -> Signer:
    given = [each for each in (read.keyless, read.key, read.ca) if each is not None]
    if len(given) != 1:
        raise ConfigurationError(f"{where} must be one of keyless, key and ca", next_step=_NEXT)
    material = given[0]
    issuer = parse_text_match(material.issuer, material.issuer_pattern, f"{where}: the issuer")
    subject = parse_text_match(material.subject, material.subject_pattern, f"{where}: the subject")
    name = read.name or where.rpartition(", ")[2]
    log_required = read.transparency_log == "required"
    if read.keyless is not None:
        if issuer is None or subject is None or material.file or material.data:
            raise ConfigurationError(
                f"{where}: keyless needs an issuer and a subject, and nothing else",
                next_step="give issuer or issuerPattern, and subject or subjectPattern",
            )
        return Signer(name, log_required, read.annotations, issuer, subject)
    pem = _read_pem(material, where, path)
    seen.add(pem)
    if read.key is not None:
        if issuer is not None or subject is not None:
            raise ConfigurationError(f"{where}: a key has neither issuer nor subject", next_step=_NEXT)
        return Signer(name, log_required, read.annotations, keys=load_public_keys(pem, where))
    authorities = load_authorities(pem, where)
    return Signer(name, log_required, read.annotations, issuer, subject, authorities=authorities)


def _read_pem(material: _Material, where: str, path: Path) -> bytes:
    if bool(material.file) == bool(material.data):
        raise ConfigurationError(f"{where} needs a file or data with PEM text, and not both", next_step=_NEXT)
    if material.data:
        return material.data.encode()
    try:
        return (path.parent / material.file).read_bytes()
    except OSError as exc:
        raise ConfigurationError(f"{where}: {material.file} cannot be read: {exc.strerror}") from exc
