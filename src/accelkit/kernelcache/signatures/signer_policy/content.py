"""Content digest of policies and of the files that they refer to."""

from __future__ import annotations

import hashlib
from importlib.metadata import version
from pathlib import Path

from accelkit import __version__
from accelkit.errors import ConfigurationError
from accelkit.kernelcache.signatures.findings import RejectedError
from accelkit.kernelcache.signatures.trust import TrustRoot


class PolicyContent:
    """Digest of all added content, in the order in which it was added."""

    def __init__(self) -> None:
        # The checks of another release may be weaker, so its verdicts must not be reused.
        self._hash = hashlib.sha256(__version__.encode())

    def add(self, content: bytes) -> None:
        """Add the content of a source to the digest."""
        # Because hashes have a fixed length, the digest also depends on the boundaries between the contents.
        self._hash.update(hashlib.sha256(content).digest())

    def add_root(self, trust: TrustRoot, path: Path | None) -> None:
        """Add the trusted root to the digest.

        Args:
            trust: the trusted root.
            path: the path of the trusted root's file; None for the root in the installed release of sigstore. In that
                case, the version of sigstore is added instead of the content.

        Raises:
            ConfigurationError: the file cannot be read.
        """
        if path is None:
            self.add(f"sigstore {version('sigstore')}".encode())
            return
        try:
            self.add(trust.content)
        except RejectedError as exc:
            raise ConfigurationError(exc.message) from exc

    @property
    def digest(self) -> str:
        """The digest of all added content, in the form `sha256:…`."""
        return f"sha256:{self._hash.hexdigest()}"
