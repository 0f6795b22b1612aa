"""Trust: Sigstore's trusted root, and private authorities.

`sigstore` is loaded when a root is first needed: it takes half a second and tens of megabytes.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography import x509

from accelkit.errors import ConfigurationError
from accelkit.kernelcache.signatures.findings import RejectedError, RejectionReason
from accelkit.kernelcache.signatures.timestamps import verify_timestamp

if TYPE_CHECKING:
    from sigstore.models import TrustedRoot

_MAX_ROOT_BYTES = 4 << 20


@dataclass(frozen=True)
class Period:
    """From when to when something is trusted, both moments included; without an end, for ever."""

    start: datetime
    end: datetime | None = None

    def __contains__(self, moment: datetime) -> bool:
        return self.start <= moment and (self.end is None or moment <= self.end)


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
    def content(self) -> bytes:
        """The root's JSON. It is read once, so that what is counted into a digest is what judges.

        Raises:
            RejectedError: it cannot be read.
        """
        if self._path is None:
            # Here, because only keyless signatures and log entries need it. Not by sigstore's updater, which wants
            # a home folder to write to, and takes what it finds there.
            from sigstore._internal.tuf import DEFAULT_TUF_URL, STAGING_TUF_URL  # noqa: PLC0415
            from sigstore._utils import read_embedded  # noqa: PLC0415

            return read_embedded("trusted_root.json", STAGING_TUF_URL if self._staging else DEFAULT_TUF_URL)
        try:
            with self._path.open("rb") as file:
                content = file.read(_MAX_ROOT_BYTES + 1)
        except OSError as exc:
            raise RejectedError(
                RejectionReason.TRUST_ROOT_UNAVAILABLE, f"the trusted root {self._path} cannot be read: {exc}"
            ) from exc
        if len(content) > _MAX_ROOT_BYTES:
            raise RejectedError(RejectionReason.TRUST_ROOT_UNAVAILABLE, f"the trusted root {self._path} is too large")
        return content

    @cached_property
    def root(self) -> TrustedRoot:
        """The parsed root.

        Raises:
            RejectedError: it cannot be used, so that nothing can be verified against it.
        """
        from sigstore.models import TrustedRoot  # noqa: PLC0415 - as above
        from sigstore_models.trustroot.v1 import TrustedRoot as Document  # noqa: PLC0415 - as above

        content = self.content
        root: TrustedRoot = self._load(lambda: TrustedRoot(Document.from_json(content)))
        return root

    @cached_property
    def verifier(self) -> Any:
        """The verifier of sigstore over this root."""
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
                moment = verify_timestamp(timestamp_response, message, authorities)
                source = TimestampSource.TIMESTAMP_AUTHORITY
                return None if moment is None else TimestampVerificationResult(source=source, time=moment)

        return self._load(lambda: _Verifier(trusted_root=self.root))

    def find_log(self, log_id: bytes) -> tuple[Any, Period]:
        """Return the key of a transparency log by its ID, as sigstore's keyring of one, and when it is trusted.

        Raises:
            RejectedError: the root cannot be used, or knows no such log.
        """
        from sigstore._internal.trust import Keyring  # noqa: PLC0415 - no public way to the key of one log

        for log in self.root._inner.tlogs:  # noqa: SLF001 - no public way to a log's validity
            names = {each.key_id for each in (log.log_id, log.checkpoint_key_id) if each is not None}
            if log_id in names or hashlib.sha256(log.public_key.raw_bytes or b"").digest() == log_id:
                return self._load(lambda key=log.public_key: Keyring([key])), _convert_period(log.public_key.valid_for)
        raise RejectedError(RejectionReason.LOG_ENTRY_INVALID, f"the trusted root knows no log {log_id.hex()[:64]}")

    def find_certificate_logs(self, at: datetime) -> Any:
        """Return the keys of the certificate transparency logs that are trusted at a moment.

        Raises:
            RejectedError: the root cannot be used, names no such logs at all, or trusts none then.
        """
        from sigstore._internal.trust import Keyring  # noqa: PLC0415 - as above

        logs = self.root._inner.ctlogs  # noqa: SLF001 - as above
        if not logs:
            raise RejectedError(RejectionReason.TRUST_ROOT_UNAVAILABLE, "the trusted root names no certificate log")
        keys = [log.public_key for log in logs if at in _convert_period(log.public_key.valid_for)]
        if not keys:
            raise RejectedError(
                RejectionReason.UNTRUSTED_ROOT, f"no certificate log was trusted at {_format_moment(at)}"
            )
        return self._load(lambda: Keyring(keys))

    def find_authorities(self, at: datetime) -> Authorities:
        """Sigstore's certificate authorities that the root trusts for a moment.

        Raises:
            RejectedError: the root cannot be used, or trusts none then.
        """
        chains = [
            Authorities.of(each.certificates(allow_expired=True))
            for each in self._certificate_authorities
            if at in Period(each.validity_period_start, each.validity_period_end)
        ]
        if not chains:
            raise RejectedError(
                RejectionReason.UNTRUSTED_ROOT, f"no certificate authority was trusted at {_format_moment(at)}"
            )
        roots = tuple(each for chain in chains for each in chain.roots)
        return Authorities(roots, tuple(each for chain in chains for each in chain.intermediates))

    @cached_property
    def _certificate_authorities(self) -> tuple[Any, ...]:
        from sigstore._internal.trust import CertificateAuthority  # noqa: PLC0415 - no public way either

        inner = self.root._inner.certificate_authorities  # noqa: SLF001 - the same
        return tuple(self._load(lambda: [CertificateAuthority(each) for each in inner]))

    @cached_property
    def timestampers(self) -> tuple[Any, ...]:
        """Timestamp authorities; possibly none."""
        return tuple(self._load(self.root.get_timestamp_authorities))

    @staticmethod
    def _load(load: Any) -> Any:
        from sigstore.errors import Error  # noqa: PLC0415 - as above

        try:
            return load()
        except (Error, ValueError, RecursionError) as exc:
            raise RejectedError(
                RejectionReason.TRUST_ROOT_UNAVAILABLE, f"the trusted root cannot be used: {exc}"
            ) from exc


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
    """Read the certificates of a private authority. Whether they are still valid is judged with each signature.

    Raises:
        ConfigurationError: they cannot be read.
    """
    try:
        return Authorities.of(x509.load_pem_x509_certificates(pem))
    except ValueError as exc:
        raise ConfigurationError(f"{where} gives certificates that cannot be read: {exc}") from exc


def _convert_period(valid_for: Any) -> Period:
    """Return the period of a key. Without one, the key is trusted at all times, as sigstore has it."""
    always = datetime.min.replace(tzinfo=UTC)
    return Period(always) if valid_for is None else Period(valid_for.start, valid_for.end)


def _format_moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
