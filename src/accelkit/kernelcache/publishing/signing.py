"""Signing of images with `cosign`, which supports keys, hardware tokens and OIDC logins."""

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
_NEXT_STEP = "the image was pushed; correct the cause and repeat the command, or sign the digest later"


@dataclass(frozen=True)
class Cosign:
    """The `cosign` program, with the options for a signature.

    Attributes:
        program: the path or the name of the program.
        key: the value of cosign's option `--key`: a file, a `k8s://` Secret or the URI of a key management service;
            None for keyless signing.
        log: whether to add an entry to the transparency log.
        plain_http: whether to use the registry without TLS.
        arguments: other options for cosign.
        environ: environment variables for cosign, in addition to the environment of this process.
    """

    program: str = "cosign"
    key: str | None = None
    log: bool = True
    plain_http: bool = False
    arguments: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)

    async def sign(self, image: Reference) -> None:
        """Sign the digest of an image. The password of a key is read from COSIGN_PASSWORD.

        Raises:
            ConfigurationError: cosign is not installed.
            SignatureError: cosign failed; the message contains its output.
        """
        program = shutil.which(self.program)
        if program is None:
            raise ConfigurationError(
                f"cannot sign {image}: {self.program} is not installed",
                next_step="install cosign 2 or 3, or sign the image later",
            )
        usage = await self._run(program, "sign", "--help", seconds=_HELP_SECONDS)
        options = ["--yes", *(["--key", self.key] if self.key else []), *self.arguments]
        if self.plain_http:
            options += ["--allow-http-registry", "--allow-insecure-registry"]
        if not self.log:
            options += ["--tlog-upload=false"]
            # By default, cosign 3 reads the addresses of the services from a signing configuration.
            options += ["--use-signing-config=false"] if "--use-signing-config" in usage else []
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
                f"{Path(program).name} {arguments[0]} did not finish within {seconds:.0f} s", next_step=_NEXT_STEP
            ) from exc
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        text = output.decode(errors="replace")
        if process.returncode:
            raise SignatureError(
                f"{Path(program).name} {arguments[0]} failed: {_shorten_output(text)}", next_step=_NEXT_STEP
            )
        return text


def _shorten_output(text: str) -> str:
    # cosign logs an error twice. The second message follows these words and does not contain warnings.
    error = " ".join(text.rpartition("error during command execution: ")[2].split())
    return sanitize_message(error[-500:])


async def sign_image(image: Reference, cosign: Cosign, settings: RegistrySettings, *, lend_login: bool = False) -> None:
    """Sign an image in its registry, with the same settings as the client that pushed it.

    Args:
        image: the image reference with a digest.
        cosign: the program and its options, without registry options.
        settings: the settings of the client that pushed the image.
        lend_login: whether to pass the login from `settings` to cosign; otherwise, cosign uses the user's Docker
            logins.

    Raises:
        ConfigurationError: cosign is not installed, or a login cannot be read.
        SignatureError: cosign fails.
    """
    authorities = ("--registry-cacert", str(settings.ca_file)) if settings.ca_file is not None else ()
    login = await settings.credentials.find_login(image) if lend_login else None
    with write_docker_config(image.registry, login) as environ:
        configured = replace(
            cosign,
            plain_http=image.registry in settings.plain_http,
            arguments=(*cosign.arguments, *authorities),
            environ={**cosign.environ, **environ},
        )
        await configured.sign(image)
