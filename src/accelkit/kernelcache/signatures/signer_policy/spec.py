"""The `spec` of a policy in a file or cluster object, and its conversion to a policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Literal

import msgspec

from accelkit.errors import ConfigurationError
from accelkit.kernelcache.signatures.keys import load_public_keys
from accelkit.kernelcache.signatures.signer_policy.policies import (
    ALL_NAMESPACES,
    VERDICT_TTL_SECONDS,
    Signer,
    SignerPolicy,
)
from accelkit.kernelcache.signatures.text_patterns import MAX_PATTERN_LENGTH, parse_image_pattern, parse_text_match
from accelkit.kernelcache.signatures.trust import load_authorities

MAX_POLICY_BYTES = 1 << 20
MAX_VERDICT_TTL_SECONDS = 365 * 24 * 3600
NEXT_STEP = "see docs/how-to/signer-policies.md for the format"
# If a field is empty, for example because of an unset template variable, this must not mean that any value is accepted.
Given = Annotated[str, msgspec.Meta(min_length=1)]


class KeyMaterial(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Identity, keys or certificates of a signer. The kind of signer determines which fields are required."""

    file: Given = ""
    data: Given = ""
    issuer: Given = ""
    issuer_pattern: Given = ""
    subject: Given = ""
    subject_pattern: Given = ""


class SignerSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """One signer in the `spec` of a policy, before its conversion."""

    name: str = ""
    keyless: KeyMaterial | None = None
    key: KeyMaterial | None = None
    ca: KeyMaterial | None = None
    transparency_log: Literal["required", "notRequired"] = "required"
    annotations: dict[str, str] = {}


class PolicySpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The `spec` of a policy, before its conversion."""

    images: list[str]
    signers: list[SignerSpec]
    namespaces: list[str] = msgspec.field(default_factory=lambda: [*ALL_NAMESPACES])
    verdict_ttl_seconds: Annotated[int, msgspec.Meta(ge=0, le=MAX_VERDICT_TTL_SECONDS)] = VERDICT_TTL_SECONDS


def build_policy(name: str, spec: PolicySpec, read_file: Callable[[str, str], bytes]) -> SignerPolicy:
    """Return the policy for a spec.

    Args:
        name: the name of the policy.
        spec: the spec to convert.
        read_file: returns the content of a file that the spec refers to, or raises an error. The second argument is the
            name of the signer, for messages.

    Raises:
        ConfigurationError: the policy is invalid, can never match, or matches any identity.
    """
    where = f"signer policy {name}"
    if not spec.signers:
        raise ConfigurationError(f"{where} has no signers", next_step=NEXT_STEP)
    images = read_images(spec.images, where)
    namespaces = read_namespaces(spec.namespaces, where)
    signers = tuple(
        _read_signer(each, f"{where}, signer {number}", read_file) for number, each in enumerate(spec.signers, 1)
    )
    return SignerPolicy(name, images, signers, namespaces, spec.verdict_ttl_seconds)


def read_images(patterns: Sequence[str], where: str) -> tuple[str, ...]:
    """Return the normalized image patterns.

    Raises:
        ConfigurationError: there are no patterns, or a pattern is invalid.
    """
    _check_patterns(patterns, where, "images")
    return tuple(parse_image_pattern(each, where) for each in patterns)


def read_namespaces(patterns: Sequence[str], where: str) -> tuple[str, ...]:
    """Return the namespace patterns.

    Raises:
        ConfigurationError: there are no patterns, or a pattern is invalid.
    """
    _check_patterns(patterns, where, "namespaces")
    return tuple(patterns)


def _check_patterns(patterns: Sequence[str], where: str, what: str) -> None:
    if not patterns:
        raise ConfigurationError(f"{where} has no {what}", next_step=NEXT_STEP)
    if any(not each or len(each) > MAX_PATTERN_LENGTH for each in patterns):
        raise ConfigurationError(f"{where} has a pattern that is empty or longer than {MAX_PATTERN_LENGTH} characters")


def _read_signer(spec: SignerSpec, where: str, read_file: Callable[[str, str], bytes]) -> Signer:
    given = [each for each in (spec.keyless, spec.key, spec.ca) if each is not None]
    if len(given) != 1:
        raise ConfigurationError(f"{where} must have exactly one of keyless, key and ca", next_step=NEXT_STEP)
    material = given[0]
    issuer = parse_text_match(material.issuer, material.issuer_pattern, f"{where}: the issuer")
    subject = parse_text_match(material.subject, material.subject_pattern, f"{where}: the subject")
    name = spec.name or where.rpartition(", ")[2]
    log_required = spec.transparency_log == "required"
    if spec.keyless is not None:
        if issuer is None or subject is None or material.file or material.data:
            raise ConfigurationError(
                f"{where}: keyless requires an issuer and a subject, and allows no other field",
                next_step="set issuer or issuerPattern, and subject or subjectPattern",
            )
        return Signer(name, log_required, spec.annotations, issuer, subject)
    pem = _read_pem(material, where, read_file)
    if spec.key is not None:
        if issuer is not None or subject is not None:
            raise ConfigurationError(f"{where}: a key must not have an issuer or a subject", next_step=NEXT_STEP)
        return Signer(name, log_required, spec.annotations, keys=load_public_keys(pem, where))
    authorities = load_authorities(pem, where)
    return Signer(name, log_required, spec.annotations, issuer, subject, authorities=authorities)


def _read_pem(material: KeyMaterial, where: str, read_file: Callable[[str, str], bytes]) -> bytes:
    if bool(material.file) == bool(material.data):
        raise ConfigurationError(f"{where} requires either a file or data with PEM text", next_step=NEXT_STEP)
    return material.data.encode() if material.data else read_file(material.file, where)
