"""What is trusted before a signature is looked at: Sigstore's trusted root, and private authorities.

`sigstore` is loaded when a root is first needed: it takes half a second and tens of megabytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography import x509

from accelkit.errors import ConfigurationError
from accelkit.kernelcache.signatures.findings import Reason, RejectedError
from accelkit.kernelcache.signatures.timestamps import moment_of

if TYPE_CHECKING:
    from sigstore.models import TrustedRoot

_MAX_ROOT_BYTES = 4 << 20


class TrustRoot:
    """Sigstore's keys and authorities, from a file or as the installed release of sigstore knows them.

    Args:
        path: JSON of a trusted root; None for the public instance's.
        staging: without a path, the staging instance's.
    """

    def __init__(self, path: Path | None = None, *, staging: bool = False) -> None:
        self._path = path
        self._staging = staging

    @cached_property
    def root(self) -> TrustedRoot:
        """The parsed root.

        Raises:
            RejectedError: it cannot be read, so that nothing can be verified against it.
        """
        # Here, because only keyless signatures and log entries need it.
        from sigstore.models import ClientTrustConfig, TrustedRoot  # noqa: PLC0415

        where = self._path or "of the public Sigstore instance"
        try:
            if self._path is not None and self._path.stat().st_size <= _MAX_ROOT_BYTES:
                return TrustedRoot.from_file(str(self._path))
            if self._path is None:
                known = ClientTrustConfig.staging if self._staging else ClientTrustConfig.production
                return known(offline=True).trusted_root
        except Exception as exc:
            raise RejectedError(
                Reason.TRUST_ROOT_UNAVAILABLE, f"the trusted root {where} cannot be used: {exc}"
            ) from exc
        raise RejectedError(Reason.TRUST_ROOT_UNAVAILABLE, f"the trusted root {where} is too large")

    @cached_property
    def verifier(self) -> Any:
        """Sigstore's own verifier over this root."""
        from sigstore._internal.timestamp import (  # noqa: PLC0415 - the types of what is replaced below
            TimestampSource,
            TimestampVerificationResult,
        )
        from sigstore.verify import Verifier  # noqa: PLC0415 - as above

        authorities = self.timestampers

        class _Verifier(Verifier):
            # sigstore leaves the last moment of an authority's time out; the specification counts it in.
            def _verify_signed_timestamp(
                self, timestamp_response: Any, message: bytes
            ) -> TimestampVerificationResult | None:
                moment = moment_of(timestamp_response, message, authorities)
                source = TimestampSource.TIMESTAMP_AUTHORITY
                return None if moment is None else TimestampVerificationResult(source=source, time=moment)

        return self._known(lambda: _Verifier(trusted_root=self.root))

    @cached_property
    def logs(self) -> Any:
        """The keys of transparency logs."""
        from sigstore._internal.trust import KeyringPurpose  # noqa: PLC0415 - no public way to a log's key

        return self._known(lambda: self.root.rekor_keyring(KeyringPurpose.VERIFY))

    @cached_property
    def certificate_logs(self) -> Any:
        """The keys of certificate transparency logs."""
        from sigstore._internal.trust import KeyringPurpose  # noqa: PLC0415 - the same

        return self._known(lambda: self.root.ct_keyring(KeyringPurpose.VERIFY))

    def fulcio(self, at: datetime) -> Authorities:
        """Sigstore's certificate authorities that the root trusts for a moment.

        Raises:
            RejectedError: the root cannot be used, or trusts none then.
        """
        trusted = [
            certificate
            for each in self._certificate_authorities
            if each.validity_period_start <= at and (each.validity_period_end is None or at <= each.validity_period_end)
            for certificate in each.certificates(allow_expired=True)
        ]
        if not trusted:
            raise RejectedError(
                Reason.UNTRUSTED_ROOT, f"no certificate authority was trusted at {at:%Y-%m-%d %H:%M:%S} UTC"
            )
        return Authorities.of(trusted)

    @cached_property
    def _certificate_authorities(self) -> tuple[Any, ...]:
        from sigstore._internal.trust import CertificateAuthority  # noqa: PLC0415 - no public way either

        inner = self.root._inner.certificate_authorities  # noqa: SLF001 - the same
        return tuple(self._known(lambda: [CertificateAuthority(each) for each in inner]))

    @cached_property
    def timestampers(self) -> tuple[Any, ...]:
        """Timestamp authorities; possibly none."""
        return tuple(self._known(self.root.get_timestamp_authorities))

    def covers_log_time(self, log_id: bytes, moment: datetime) -> bool:
        """Whether the root trusts a log at a moment; a log it does not know by this identity is left to its keys."""
        for log in self.root._inner.tlogs:  # noqa: SLF001 - no public way to a log's validity
            if log.log_id and log.log_id.key_id == log_id and log.public_key.valid_for:
                period = log.public_key.valid_for
                return bool(period.start <= moment and (period.end is None or moment <= period.end))
        return True

    @staticmethod
    def _known(load: Any) -> Any:
        from sigstore.errors import Error  # noqa: PLC0415 - as above

        try:
            return load()
        except (Error, ValueError) as exc:
            raise RejectedError(Reason.TRUST_ROOT_UNAVAILABLE, f"the trusted root lacks what is needed: {exc}") from exc


@dataclass(frozen=True)
class Authorities:
    """Certificates that are trusted (`roots`) and those that may stand between (`intermediates`)."""

    roots: tuple[x509.Certificate, ...]
    intermediates: tuple[x509.Certificate, ...] = ()

    @classmethod
    def of(cls, certificates: list[x509.Certificate]) -> Authorities:
        """Tell roots, which signed themselves, from intermediates. Without any root, all are trusted as given."""
        roots = tuple(each for each in certificates if each.issuer == each.subject)
        if not roots:
            return cls(tuple(certificates))
        return cls(roots, tuple(each for each in certificates if each.issuer != each.subject))


def load_authorities(pem: bytes, where: str) -> Authorities:
    """Read the certificates of a private authority.

    Raises:
        ConfigurationError: they cannot be read, or have all expired.
    """
    try:
        certificates = x509.load_pem_x509_certificates(pem)
    except ValueError as exc:
        raise ConfigurationError(f"{where} gives certificates that cannot be read: {exc}") from exc
    if all(each.not_valid_after_utc < datetime.now(UTC) for each in certificates):
        raise ConfigurationError(f"{where} gives certificates that have all expired")
    return Authorities.of(certificates)
