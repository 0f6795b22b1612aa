"""Signing with `cosign`, which knows the keys, hardware tokens and log-ins of its users."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from accelkit.errors import ConfigurationError, SignatureError
from accelkit.kernelcache.oci.reference import Reference
from accelkit.kernelcache.publishing.docker_config import write_docker_config
from accelkit.kernelcache.registry import RegistrySettings
from accelkit.kernelcache.signatures.findings import sanitize_message

_SIGN_SECONDS = 300.0
_HELP_SECONDS = 30.0
_NEXT = "the image is pushed: mend that and repeat, or sign its digest later"


@dataclass(frozen=True)
class Cosign:
    """How cosign is to sign.

    Attributes:
        program: its path or name.
        key: anything that its `--key` takes: a file, a `k8s://` secret, a key service's URI; None for keyless.
        log: whether an entry of the transparency log is made.
        plain_http: whether the registry is spoken to without TLS.
        arguments: more of its own options.
        environ: variables that it gets beside our own.
    """

    program: str = "cosign"
    key: str | None = None
    log: bool = True
    plain_http: bool = False
    arguments: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)

    async def sign(self, image: Reference) -> None:
        """Sign an image's digest. cosign asks COSIGN_PASSWORD for the password of a key.

        Raises:
            ConfigurationError: cosign is not there.
            SignatureError: it fails, with its own words.
        """
        program = shutil.which(self.program)
        if program is None:
            raise ConfigurationError(
                f"{self.program} is not there to sign {image}", next_step="install cosign 2 or 3, or sign it later"
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

    async def _run(self, program: str, *arguments: str, seconds: float) -> str:
        process = await asyncio.create_subprocess_exec(
            *(program, *arguments),
            env={**os.environ, **self.environ},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(seconds):
                output, _ = await process.communicate()
        except TimeoutError as exc:
            raise SignatureError(
                f"{Path(program).name} {arguments[0]} gave no answer in {seconds:.0f} s", next_step=_NEXT
            ) from exc
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        text = output.decode(errors="replace")
        if process.returncode:
            raise SignatureError(
                f"{Path(program).name} {arguments[0]} failed: {_shorten_output(text)}", next_step=_NEXT
            )
        return text


def _shorten_output(text: str) -> str:
    # It logs its error twice, the second time behind these words and without the warnings before.
    said = " ".join(text.rpartition("error during command execution: ")[2].split())
    return sanitize_message(said[-500:])


async def sign_image(image: Reference, cosign: Cosign, settings: RegistrySettings, *, lend_login: bool = False) -> None:
    """Sign an image where it lies, reaching its registry as we do.

    Args:
        image: by digest.
        cosign: how, its registry aside.
        settings: of the client that pushed it.
        lend_login: whether cosign gets the login that `settings` has; else it uses those of Docker's user.

    Raises:
        ConfigurationError: cosign is not there, or a login cannot be read.
        SignatureError: it fails.
    """
    authorities = ("--registry-cacert", str(settings.ca_file)) if settings.ca_file is not None else ()
    login = await settings.credentials.find_login(image) if lend_login else None
    with write_docker_config(image.registry, login) as environ:
        reaching = replace(
            cosign,
            plain_http=image.registry in settings.plain_http,
            arguments=(*cosign.arguments, *authorities),
            environ={**cosign.environ, **environ},
        )
        await reaching.sign(image)
