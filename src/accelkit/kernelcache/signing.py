"""Signing with `cosign`, which knows the keys, hardware tokens and log-ins of its users."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path

from accelkit.errors import ConfigurationError, SignatureError
from accelkit.kernelcache.reference import Reference

_SIGN_SECONDS = 300.0
_HELP_SECONDS = 30.0


@dataclass(frozen=True)
class Cosign:
    """How cosign is to sign.

    Attributes:
        program: its path or name.
        key: anything that its `--key` takes: a file, a `k8s://` secret, a key service's URI; empty for keyless.
        log: whether an entry of the transparency log is made.
        plain_http: whether the registry is spoken to without TLS.
        arguments: more of its own options.
    """

    program: str = "cosign"
    key: str = ""
    log: bool = True
    plain_http: bool = False
    arguments: tuple[str, ...] = ()

    async def sign(self, image: Reference) -> None:
        """Sign an image's digest. cosign asks COSIGN_PASSWORD for the password of a key.

        Raises:
            ConfigurationError: cosign is not there.
            SignatureError: it fails, with its own words.
        """
        program = shutil.which(self.program)
        if program is None:
            raise ConfigurationError(
                f"{self.program} is not there to sign {image}", next_step="install cosign 2 or 3, or sign later"
            )
        known = await self._run(program, "sign", "--help", seconds=_HELP_SECONDS)
        options = ["--yes", *(["--key", self.key] if self.key else []), *self.arguments]
        if self.plain_http:
            options += ["--allow-http-registry", "--allow-insecure-registry"]
        if not self.log:
            options += ["--tlog-upload=false"]
            # Since version 3 the services come from a file that names them, unless it is told otherwise.
            options += ["--use-signing-config=false"] if "--use-signing-config" in known else []
        await self._run(program, "sign", *options, f"{image.name}@{image.digest}", seconds=_SIGN_SECONDS)

    @staticmethod
    async def _run(program: str, *arguments: str, seconds: float) -> str:
        process = await asyncio.create_subprocess_exec(
            *(program, *arguments),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(seconds):
                output, _ = await process.communicate()
        except TimeoutError as exc:
            raise SignatureError(f"{Path(program).name} {arguments[0]} gave no answer in {seconds:.0f} s") from exc
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        text = output.decode(errors="replace")
        if process.returncode:
            raise SignatureError(f"{Path(program).name} {arguments[0]} failed: {' '.join(text.split())[-500:]}")
        return text
