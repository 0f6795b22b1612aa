"""What policies rest on, as a digest."""

from __future__ import annotations

import hashlib
from importlib.metadata import version
from pathlib import Path

from accelkit import __version__
from accelkit.errors import ConfigurationError
from accelkit.kernelcache.signatures.findings import RejectedError
from accelkit.kernelcache.signatures.trust import TrustRoot


class PolicyContent:
    """What was read, in its order; `digest` tells it from everything else that might have been."""

    def __init__(self) -> None:
        # What was verified by another release may have been verified less well.
        self._hash = hashlib.sha256(__version__.encode())

    def add(self, content: bytes) -> None:
        """Count something in."""
        # Hashes have one length, so that nothing can move from one part to the next unnoticed.
        self._hash.update(hashlib.sha256(content).digest())

    def add_root(self, trust: TrustRoot, path: Path | None) -> None:
        """Count the trusted root in.

        Args:
            trust: the root.
            path: of its file; None for the one of the installed release of sigstore, which is not read for this.

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
        """`sha256:…` of all that was counted in so far."""
        return f"sha256:{self._hash.hexdigest()}"
