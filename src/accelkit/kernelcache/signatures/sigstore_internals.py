"""Functions that use private parts of `sigstore`, because its public interface does not provide them.

Import this module only where a trusted root is used, because `sigstore` takes half a second and tens of megabytes.
test_sigstore_internals.py checks each of these parts, and fails if a new release of sigstore moves or removes one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cryptography import x509
from sigstore._internal.sct import verify_sct
from sigstore._internal.timestamp import TimestampSource, TimestampVerificationResult
from sigstore._internal.trust import CertificateAuthority, Keyring
from sigstore._internal.tuf import DEFAULT_TUF_URL, STAGING_TUF_URL
from sigstore._utils import read_embedded
from sigstore.models import TransparencyLogEntry, TrustedRoot
from sigstore.verify import Verifier

from accelkit.kernelcache.signatures.timestamps import verify_timestamp


def read_embedded_root(*, staging: bool) -> bytes:
    """Return the JSON of the trusted root in the installed release of sigstore.

    sigstore's updater is not used, because it requires a writable home folder and trusts the files in it.
    """
    return read_embedded("trusted_root.json", STAGING_TUF_URL if staging else DEFAULT_TUF_URL)


def list_logs(root: TrustedRoot) -> Sequence[Any]:
    """Return the transparency logs with their IDs, keys and the validity of their keys."""
    return root._inner.tlogs  # noqa: SLF001 - the public interface leaves out validity


def list_certificate_logs(root: TrustedRoot) -> Sequence[Any]:
    """Return the certificate transparency logs with their keys and the validity of their keys."""
    return root._inner.ctlogs  # noqa: SLF001 - the same


def list_certificate_authorities(root: TrustedRoot) -> list[CertificateAuthority]:
    """Return the certificate authorities, including expired ones.

    Raises:
        sigstore.errors.Error: an authority cannot be read.
    """
    return [CertificateAuthority(each) for each in root._inner.certificate_authorities]  # noqa: SLF001 - the same


def build_keyring(keys: Sequence[Any]) -> Keyring:
    """Return a keyring with the keys of logs.

    Raises:
        sigstore.errors.Error: a key cannot be read.
    """
    return Keyring(list(keys))


def verify_certificate_log_promise(certificate: x509.Certificate, chain: list[x509.Certificate], keys: Any) -> None:
    """Check the promise (SCT) of a certificate log in a certificate.

    Raises:
        sigstore.errors.Error: no log of the keyring promised to log the certificate.
    """
    verify_sct(certificate, chain, keys)


def verify_inclusion(entry: Any, keys: Any) -> None:
    """Check that a log entry is in a transparency log, by its proof of inclusion and the log's signed checkpoint.

    Args:
        entry: the entry, as `sigstore_models` parses it.
        keys: the keys of the log.

    Raises:
        sigstore.errors.Error: the proof or the checkpoint is invalid.
    """
    TransparencyLogEntry(entry)._verify(keys)  # noqa: SLF001 - there is no public function


class InclusiveVerifier(Verifier):
    """A verifier of sigstore that also accepts the last moment of a timestamp authority's validity.

    sigstore excludes that moment; the specification of the trusted root includes it.
    """

    def __init__(self, root: TrustedRoot, authorities: tuple[Any, ...]) -> None:
        super().__init__(trusted_root=root)
        self._authorities = authorities

    def _verify_signed_timestamp(self, timestamp_response: Any, message: bytes) -> TimestampVerificationResult | None:
        moment = verify_timestamp(timestamp_response, message, self._authorities)
        source = TimestampSource.TIMESTAMP_AUTHORITY
        return None if moment is None else TimestampVerificationResult(source=source, time=moment)
