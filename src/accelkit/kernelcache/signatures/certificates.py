"""Checks for signer certificates: path, usage and identity."""

from __future__ import annotations

from datetime import datetime

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.x509.oid import ExtendedKeyUsageOID, ObjectIdentifier
from cryptography.x509.verification import Criticality, ExtensionPolicy, PolicyBuilder, Store, VerificationError

from accelkit.kernelcache.signatures.findings import RejectedError, RejectionReason
from accelkit.kernelcache.signatures.keys import PublicKey, wrap_public_key
from accelkit.kernelcache.signatures.text_patterns import TextMatch
from accelkit.kernelcache.signatures.trust import Authorities

# Fulcio's extensions for the issuer. The first contains plain text, the second contains DER.
_ISSUER_V1 = ObjectIdentifier("1.3.6.1.4.1.57264.1.1")
_ISSUER_V2 = ObjectIdentifier("1.3.6.1.4.1.57264.1.8")
_OTHER_NAME = ObjectIdentifier("1.3.6.1.4.1.57264.1.7")
_UTF8_STRING = 0x0C
_LONG_LENGTH = 0x80
# The extended key usages that include code signing.
_SIGNING_CODE = frozenset({ExtendedKeyUsageOID.CODE_SIGNING, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE})


def check_path(
    certificate: x509.Certificate,
    chain: tuple[x509.Certificate, ...],
    authorities: Authorities,
    at: datetime,
    *,
    private: bool = False,
) -> list[x509.Certificate]:
    """Build a certificate path to a trusted certificate that is valid at a given time, and check the key usages.

    A missing key usage never restricts a certificate (RFC 5280, section 4.2.1.3), as in cosign and containers/image.

    Args:
        certificate: the certificate of the signer.
        chain: untrusted certificates from the signature.
        authorities: the trusted authorities.
        at: the time at which the path must be valid.
        private: whether to accept a signer's certificate without an extended key usage or with `anyExtendedKeyUsage`,
            as in cosign.

    Returns:
        The certificates above the signer's certificate, beginning with its issuer.

    Raises:
        RejectedError: there is no valid path, the certificate had expired at that time, or it is not intended for code
            signing.
    """
    if not certificate.not_valid_before_utc <= at <= certificate.not_valid_after_utc:
        raise RejectedError(
            RejectionReason.CERTIFICATE_EXPIRED,
            f"the certificate was valid from {certificate.not_valid_before_utc:%Y-%m-%d %H:%M:%S} to "
            f"{certificate.not_valid_after_utc:%Y-%m-%d %H:%M:%S} UTC, not at {at:%Y-%m-%d %H:%M:%S}",
        )
    # The default policies require the TLS client usage. The code signing usage is checked below.
    usage = (x509.ExtendedKeyUsage, Criticality.AGNOSTIC, None)
    above = ExtensionPolicy.webpki_defaults_ca().may_be_present(*usage)
    above = above.may_be_present(x509.KeyUsage, Criticality.AGNOSTIC, _check_signs_certificates)
    leaf = ExtensionPolicy.permit_all().may_be_present(*usage)
    builder = PolicyBuilder().store(Store(list(authorities.roots))).time(at)
    verifier = builder.extension_policies(ca_policy=above, ee_policy=leaf).build_client_verifier()
    try:
        path = verifier.verify(certificate, [*authorities.intermediates, *chain]).chain[1:]
    except (VerificationError, ValueError, x509.UnsupportedGeneralNameType) as exc:
        raise RejectedError(
            RejectionReason.UNTRUSTED_ROOT, f"the certificate has no path to a trusted certificate: {exc}"
        ) from exc
    _check_usages(certificate, path, private=private)
    return path


def _check_usages(certificate: x509.Certificate, path: list[x509.Certificate], *, private: bool) -> None:
    """Check that a certificate is valid for code signing, and that its authorities may issue such certificates."""
    extensions = _read_extensions(certificate)
    constraints = extensions.get(x509.BasicConstraints)
    if isinstance(constraints, x509.BasicConstraints) and constraints.ca:
        raise RejectedError(RejectionReason.UNTRUSTED_ROOT, "the certificate belongs to an authority, not to a signer")
    for each in path:
        limits = _read_extensions(each).get(x509.ExtendedKeyUsage)
        if isinstance(limits, x509.ExtendedKeyUsage) and _SIGNING_CODE.isdisjoint(limits):
            raise RejectedError(
                RejectionReason.UNTRUSTED_ROOT, "an authority above the certificate is not valid for code signing"
            )
    key_usage, extended = extensions.get(x509.KeyUsage), extensions.get(x509.ExtendedKeyUsage)
    if isinstance(key_usage, x509.KeyUsage) and not key_usage.digital_signature:
        raise RejectedError(RejectionReason.UNTRUSTED_ROOT, "the certificate is not valid for digital signatures")
    if extended is None:
        if private:
            return
        raise RejectedError(RejectionReason.UNTRUSTED_ROOT, "the certificate has no extended key usage")
    accepted = _SIGNING_CODE if private else {ExtendedKeyUsageOID.CODE_SIGNING}
    if not isinstance(extended, x509.ExtendedKeyUsage) or accepted.isdisjoint(extended):
        raise RejectedError(RejectionReason.UNTRUSTED_ROOT, "the certificate is not valid for code signing")


def _check_signs_certificates(_policy: object, _certificate: x509.Certificate, usage: x509.KeyUsage | None) -> None:
    if usage is not None and not usage.key_cert_sign:
        raise ValueError("an authority is not valid for signing certificates")


def check_identity(
    certificate: x509.Certificate, issuer: TextMatch | None, subject: TextMatch | None
) -> tuple[str, str | None]:
    """Check the identity in a certificate.

    Returns:
        The matching subject (or the first subject, if no subject is required), and the issuer (or None, if it is
        missing).

    Raises:
        RejectedError: the certificate has a different subject or issuer.
    """
    subjects, issuer_name = read_subjects(certificate), read_issuer(certificate)
    if issuer is not None and not (issuer_name and issuer.matches(issuer_name)):
        raise RejectedError(
            RejectionReason.IDENTITY_MISMATCH, f"the issuer is {issuer_name or 'missing'}, not {issuer}"
        )
    if subject is None:
        return (subjects[0] if subjects else certificate.subject.rfc4514_string()), issuer_name
    for each in subjects:
        if subject.matches(each):
            return each, issuer_name
    found = " and ".join(subjects) or "not given"
    raise RejectedError(RejectionReason.IDENTITY_MISMATCH, f"the subject is {found}, not {subject}")


def read_subjects(certificate: x509.Certificate) -> list[str]:
    """Return the subject alternative names: URIs, email addresses, and Fulcio's user names."""
    names = _read_extensions(certificate).get(x509.SubjectAlternativeName)
    if not isinstance(names, x509.SubjectAlternativeName):
        return []
    others = [each for each in names.get_values_for_type(x509.OtherName) if each.type_id == _OTHER_NAME]
    return [
        *names.get_values_for_type(x509.UniformResourceIdentifier),
        *names.get_values_for_type(x509.RFC822Name),
        *(text for each in others if (text := _decode_utf8_string(each.value)) is not None),
    ]


def read_issuer(certificate: x509.Certificate) -> str | None:
    """Return the issuer of the identity; None if its extensions are missing or contradict each other."""
    old, new = (_read_unrecognized(certificate, each) for each in (_ISSUER_V1, _ISSUER_V2))
    values = []
    if old is not None:
        values.append(old.decode(errors="replace"))
    if new is not None:
        values.append(_decode_utf8_string(new) or "")
    return values[0] or None if values and len(set(values)) == 1 else None


def read_key(certificate: x509.Certificate) -> PublicKey:
    """Return the public key of a certificate.

    Raises:
        RejectedError: the key type is not supported, or the key is too weak.
    """
    try:
        key = wrap_public_key(certificate.public_key())
    except (ValueError, UnsupportedAlgorithm) as exc:
        raise RejectedError(RejectionReason.SIGNATURE_INVALID, f"cannot use the key of the certificate: {exc}") from exc
    if weakness := key.weakness:
        raise RejectedError(RejectionReason.UNTRUSTED_ROOT, f"the certificate has {weakness}")
    return key


def _read_extensions(certificate: x509.Certificate) -> dict[type, x509.ExtensionType]:
    try:
        return {type(each.value): each.value for each in certificate.extensions}
    except (ValueError, x509.UnsupportedGeneralNameType, x509.DuplicateExtension) as exc:
        raise RejectedError(
            RejectionReason.UNTRUSTED_ROOT, f"the certificate's extensions cannot be read: {exc}"
        ) from exc


def _read_unrecognized(certificate: x509.Certificate, identifier: ObjectIdentifier) -> bytes | None:
    try:
        value = certificate.extensions.get_extension_for_oid(identifier).value
    except (x509.ExtensionNotFound, ValueError):
        return None
    return value.value if isinstance(value, x509.UnrecognizedExtension) else None


def _decode_utf8_string(der: bytes) -> str | None:
    """Return the text of a DER UTF8String; None if the bytes are not a UTF8String."""
    if len(der) < 2 or der[0] != _UTF8_STRING:  # noqa: PLR2004 - tag and length
        return None
    length, start = der[1], 2
    if length & _LONG_LENGTH:
        size = length & ~_LONG_LENGTH
        length, start = int.from_bytes(der[2 : 2 + size]), 2 + size
    text = der[start:]
    try:
        return text.decode() if len(text) == length else None
    except UnicodeDecodeError:
        return None
