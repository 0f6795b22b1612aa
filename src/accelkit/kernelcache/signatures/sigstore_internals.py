"""Functions that use private members of `sigstore`, because its public interface does not provide the functionality.

Import this module only where a trusted root is used, because importing `sigstore` takes half a second and tens of
megabytes of memory. The tests in `test_sigstore_internals.py` check each private member, and fail if a new release of
sigstore moves or removes it.
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
    """Return the trusted root that the installed release of sigstore contains, as JSON.

    sigstore's updater is not used, because it requires a writable home folder and trusts the files in this folder.
    """
    return read_embedded("trusted_root.json", STAGING_TUF_URL if staging else DEFAULT_TUF_URL)


def list_logs(root: TrustedRoot) -> Sequence[Any]:
    """Return the transparency logs with their IDs, their keys, and the validity periods of their keys."""
    return root._inner.tlogs  # noqa: SLF001 - the public interface leaves out validity


def list_certificate_logs(root: TrustedRoot) -> Sequence[Any]:
    """Return the certificate transparency logs with the validity periods of their keys."""
    return root._inner.ctlogs  # noqa: SLF001 - the same


def list_certificate_authorities(root: TrustedRoot) -> list[CertificateAuthority]:
    """Return the certificate authorities, including expired ones.

    Raises:
        sigstore.errors.Error: an authority cannot be read.
    """
    return [CertificateAuthority(each) for each in root._inner.certificate_authorities]  # noqa: SLF001 - the same


def build_keyring(keys: Sequence[Any]) -> Keyring:
    """Return a keyring that contains the keys of logs.

    Raises:
        sigstore.errors.Error: a key cannot be read.
    """
    return Keyring(list(keys))


def verify_certificate_log_promise(certificate: x509.Certificate, chain: list[x509.Certificate], keys: Any) -> None:
    """Check the promise (SCT) in a certificate, which a certificate transparency log issued.

    Raises:
        sigstore.errors.Error: the certificate has no valid promise from a log whose key is in the keyring.
    """
    verify_sct(certificate, chain, keys)


def verify_inclusion(entry: Any, keys: Any) -> None:
    """Check that a transparency log contains an entry, based on the log's inclusion proof and signed checkpoint.

    Args:
        entry: the entry, parsed by `sigstore_models`.
        keys: the keys of the log.

    Raises:
        sigstore.errors.Error: the proof or the checkpoint is invalid.
    """
    TransparencyLogEntry(entry)._verify(keys)  # noqa: SLF001 - there is no public function


class InclusiveVerifier(Verifier):
    """A sigstore verifier that also accepts the last moment of a timestamp authority's validity period.

    sigstore excludes this moment, but the specification of the trusted root includes it.
    """

    def __init__(self, root: TrustedRoot, authorities: tuple[Any, ...]) -> None:
        super().__init__(trusted_root=root)
        self._authorities = authorities

    def _verify_signed_timestamp(self, timestamp_response: Any, message: bytes) -> TimestampVerificationResult | None:
        moment = verify_timestamp(timestamp_response, message, self._authorities)
        source = TimestampSource.TIMESTAMP_AUTHORITY
        return None if moment is None else TimestampVerificationResult(source=source, time=moment)
