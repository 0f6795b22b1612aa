"""A registry with the image of a cache, and the commands about it."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner, Result
from private_sigstore import PrivateSigstore
from registries.artifact import Artifact
from registries.caches import cache_folder, publish, write_policy
from registries.hostile import HostileRegistry

from accelkit.cli import main

SIGSTORE = PrivateSigstore.new()
KEY = SIGSTORE.key()
OTHER_KEY = SIGSTORE.key()


class Bed:
    """A registry with the image of a cache, and the commands about it."""

    def __init__(self, registry: HostileRegistry, folder: Path) -> None:
        self.registry = registry
        self.host = registry.host
        self.folder = folder
        self.source = cache_folder(folder / "source")
        self.image: Artifact = publish(self.host, self.source)
        self.name = f"{self.host}/team/cache:v1"
        self.policy = write_policy(folder, self.host, KEY)

    def __call__(self, command: str, *arguments: object) -> Result:
        plain = [] if command == "verify-bundle" else ["--plain-http", self.host]
        given = ["cache", command, *map(str, arguments), *plain]
        return CliRunner().invoke(main, given, prog_name="accelkit", catch_exceptions=False)

    def verify(self, *arguments: object) -> Result:
        return self("verify", self.name, "--policy", self.policy, *arguments)

    def extract(self, *arguments: object) -> Result:
        return self("extract", self.name, self.folder / "caches", *arguments)

    @property
    def extracted(self) -> Path:
        return self.folder / "caches" / self.image.digest.replace(":", "-") / "cache"
