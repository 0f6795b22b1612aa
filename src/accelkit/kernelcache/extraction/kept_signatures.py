"""Signatures kept beside an extracted cache, so that other policies can be asked about it without a registry.

Nothing has to guard them: they are judged each time as those of a registry are, and hold for one digest alone.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from accelkit.kernelcache.extraction.checks import describe_signers
from accelkit.kernelcache.extraction.record import CompletionRecord
from accelkit.kernelcache.extraction.request import ExtractionRequest
from accelkit.kernelcache.signatures import UnverifiedError
from accelkit.kernelcache.signatures.evidence import SignatureMaterial
from accelkit.kernelcache.signatures.image import judge_material

SIGNATURES = "signatures.json"
# Of all of them; more are not kept, and then the registry is asked.
MAX_KEPT_BYTES = 8 << 20
_MODE = 0o644
_decoder = msgspec.json.Decoder(tuple[SignatureMaterial, ...])


def keep_signatures(folder: Path, material: Sequence[SignatureMaterial]) -> None:
    """Write or replace the signatures in the folder of a cache, in one step.

    Raises:
        OSError: the disk is full, or cannot be written.
    """
    content = msgspec.json.encode(material)
    if len(content) > MAX_KEPT_BYTES:
        (folder / SIGNATURES).unlink(missing_ok=True)
        return
    new = folder / f".{SIGNATURES}.new"
    with new.open("wb") as file:
        os.fchmod(file.fileno(), _MODE)
        file.write(content)
    new.rename(folder / SIGNATURES)


def read_signatures(folder: Path) -> tuple[SignatureMaterial, ...]:
    """Return the signatures that were kept; none where there are none that can be read."""
    try:
        with (folder / SIGNATURES).open("rb") as file:
            content = file.read(MAX_KEPT_BYTES + 1)
        return _decoder.decode(content) if len(content) <= MAX_KEPT_BYTES else ()
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ()


async def judge_record(folder: Path, record: CompletionRecord, request: ExtractionRequest) -> CompletionRecord | None:
    """Judge a cache that is there by the policies of a request, with the signatures that were kept of it.

    Args:
        folder: of the cache.
        record: what the folder says of it.
        request: by digest.

    Returns:
        What the record should say from now on; None where the registry has to be asked: nothing was kept, or it is too
        long ago that the signatures were looked for.

    Raises:
        UnverifiedError: these signatures do not satisfy the policies. The registry may have others by now.
    """
    policies = request.policies
    if policies is None:
        return record
    kept = await asyncio.to_thread(read_signatures, folder)
    image, now = request.image, request.clock()
    # What no policy covers is refused whatever signs it.
    if policies.select(image, request.namespace) and not (kept and request.is_recent(record)):
        return None
    signatures = await asyncio.to_thread(
        lambda: judge_material(image, kept, policies, namespace=request.namespace, now=now)
    )
    return msgspec.structs.replace(
        record,
        image=str(image),
        policy_digest=request.policy_digest or "",
        signatures=describe_signers(signatures),
    )


async def find_believed(folder: Path, record: CompletionRecord, request: ExtractionRequest) -> CompletionRecord | None:
    """Return what a record should say where it counts without a look at the registry; None where it does not.

    Kept signatures that do not satisfy the policies are no verdict, since the registry may have others.
    """
    if request.believes(record):
        return record
    try:
        return await judge_record(folder, record, request)
    except UnverifiedError:
        return None
