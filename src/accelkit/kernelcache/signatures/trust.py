"""Trust anchors: Sigstore's trusted root, and private authorities.

`sigstore` is imported only when a trusted root is first used, because the import takes half a second and tens of
megabytes of memory.
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

if TYPE_CHECKING:
    from sigstore.models import TrustedRoot

_MAX_ROOT_BYTES = 4 << 20


@dataclass(frozen=True)
class Period:
    """The period in which a key or authority is trusted. It includes its start and end, and may have no end."""

    start: datetime
    end: datetime | None = None

    def __contains__(self, moment: datetime) -> bool:
        return self.start <= moment and (self.end is None or moment <= self.end)


class TrustRoot:
    """Sigstore's keys and authorities, from a file or from the installed release of sigstore.

    Args:
        path: the JSON file of a trusted root; None for the root that sigstore contains.
        staging: whether to use the staging instance instead of the public instance; ignored if `path` is set.
    """

    def __init__(self, path: Path | None = None, *, staging: bool = False) -> None:
        self._path = path
        self._staging = staging

    @cached_property
    def content(self) -> bytes:
        """The JSON of the root, which is read only once, so that the digest and all verdicts use the same content.

        Raises:
            RejectedError: the root cannot be read.
        """
        if self._path is None:
            embedded: bytes = _import_internals().read_embedded_root(staging=self._staging)
            return embedded
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
            RejectedError: the root is invalid.
        """
        from sigstore.models import TrustedRoot  # noqa: PLC0415 - loaded only if needed
        from sigstore_models.trustroot.v1 import TrustedRoot as Document  # noqa: PLC0415 - the same

        content = self.content
        root: TrustedRoot = self._load(lambda: TrustedRoot(Document.from_json(content)))
        return root

    @cached_property
    def verifier(self) -> Any:
        """The sigstore verifier for this root."""
        internals = _import_internals()
        return self._load(lambda: internals.InclusiveVerifier(self.root, self.timestampers))

    def find_log(self, log_id: bytes) -> tuple[Any, Period]:
        """Return the key of a transparency log as a sigstore keyring, and the validity period of the key.

        Raises:
            RejectedError: the root is invalid, or does not contain the log.
        """
        internals = _import_internals()
        for log in internals.list_logs(self.root):
            names = {each.key_id for each in (log.log_id, log.checkpoint_key_id) if each is not None}
            if log_id in names or hashlib.sha256(log.public_key.raw_bytes or b"").digest() == log_id:
                return self._load(lambda key=log.public_key: internals.build_keyring([key])), _convert_period(
                    log.public_key.valid_for
                )
        raise RejectedError(
            RejectionReason.LOG_ENTRY_INVALID, f"the trusted root does not contain the log {log_id.hex()[:64]}"
        )

    def find_certificate_logs(self, at: datetime) -> Any:
        """Return the keys of the certificate transparency logs that were trusted at a given time.

        Raises:
            RejectedError: the root is invalid, or contains no certificate transparency log that was trusted at that
                time.
        """
        internals = _import_internals()
        logs = internals.list_certificate_logs(self.root)
        if not logs:
            raise RejectedError(RejectionReason.TRUST_ROOT_UNAVAILABLE, "the trusted root contains no certificate log")
        keys = [log.public_key for log in logs if at in _convert_period(log.public_key.valid_for)]
        if not keys:
            raise RejectedError(
                RejectionReason.UNTRUSTED_ROOT, f"no certificate log was trusted at {_format_moment(at)}"
            )
        return self._load(lambda: internals.build_keyring(keys))

    def find_authorities(self, at: datetime) -> Authorities:
        """Return Sigstore's certificate authorities that were trusted at a given time.

        Raises:
            RejectedError: the root is invalid, or contains no authority that was trusted at that time.
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
        internals = _import_internals()
        return tuple(self._load(lambda: internals.list_certificate_authorities(self.root)))

    @cached_property
    def timestampers(self) -> tuple[Any, ...]:
        """The timestamp authorities of the root, if any."""
        return tuple(self._load(self.root.get_timestamp_authorities))

    @staticmethod
    def _load(load: Any) -> Any:
        from sigstore.errors import Error  # noqa: PLC0415 - the same

        try:
            return load()
        except (Error, ValueError, RecursionError) as exc:
            raise RejectedError(
                RejectionReason.TRUST_ROOT_UNAVAILABLE, f"the trusted root cannot be used: {exc}"
            ) from exc


@dataclass(frozen=True)
class Authorities:
    """Trusted certificates (`roots`), and certificates between a root and a signer (`intermediates`)."""

    roots: tuple[x509.Certificate, ...]
    intermediates: tuple[x509.Certificate, ...] = ()

    @classmethod
    def of(cls, certificates: list[x509.Certificate]) -> Authorities:
        """Return authorities whose roots are the self-issued certificates, or all certificates if there are none."""
        roots = tuple(each for each in certificates if each.issuer == each.subject)
        if not roots:
            return cls(tuple(certificates))
        return cls(roots, tuple(each for each in certificates if each.issuer != each.subject))


def load_authorities(pem: bytes, where: str) -> Authorities:
    """Return the certificates of a private authority. Their validity is checked each time a signature is verified.

    Raises:
        ConfigurationError: a certificate cannot be read.
    """
    try:
        return Authorities.of(x509.load_pem_x509_certificates(pem))
    except ValueError as exc:
        raise ConfigurationError(f"{where} contains invalid certificates: {exc}") from exc


def _import_internals() -> Any:
    # Imported here, because only keyless signatures and log entries require sigstore.
    from accelkit.kernelcache.signatures import sigstore_internals  # noqa: PLC0415

    return sigstore_internals


def _convert_period(valid_for: Any) -> Period:
    """Return the validity period of a key. Without a period, the key is always trusted, as in sigstore."""
    always = datetime.min.replace(tzinfo=UTC)
    return Period(always) if valid_for is None else Period(valid_for.start, valid_for.end)


def _format_moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
