"""Signatures stored with an extracted cache, which can be verified against other policies without a registry.

The signatures need no protection, because they are valid for only one digest and are verified before each use, like
signatures from a registry.
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
# The limit on the total size of the signatures of a cache. Larger sets are not stored, so their verification requires
# the registry.
MAX_KEPT_BYTES = 8 << 20
_MODE = 0o644
_decoder = msgspec.json.Decoder(tuple[SignatureMaterial, ...])


def keep_signatures(folder: Path, material: Sequence[SignatureMaterial]) -> None:
    """Write or replace the signatures in a cache folder in one step.

    Raises:
        OSError: the disk is full or not writable.
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
    """Return the stored signatures; empty if they are missing or unreadable."""
    try:
        with (folder / SIGNATURES).open("rb") as file:
            content = file.read(MAX_KEPT_BYTES + 1)
        return _decoder.decode(content) if len(content) <= MAX_KEPT_BYTES else ()
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ()


async def judge_record(folder: Path, record: CompletionRecord, request: ExtractionRequest) -> CompletionRecord | None:
    """Verify the stored signatures of an extracted cache against the policies of a request.

    Args:
        folder: the folder of the cache.
        record: the record in the folder.
        request: the request, whose image has a digest.

    Returns:
        The updated record; None if access to the registry is required because no signatures are stored, or because they
        were fetched too long ago.

    Raises:
        UnverifiedError: the stored signatures do not satisfy the policies. The registry may have newer signatures.
    """
    policies = request.policies
    if policies is None:
        return record
    kept = await asyncio.to_thread(read_signatures, folder)
    image, now = request.image, request.clock()
    # An image that no policy covers is rejected regardless of its signatures.
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


async def find_accepted(folder: Path, record: CompletionRecord, request: ExtractionRequest) -> CompletionRecord | None:
    """Return the updated record if the cache is accepted without access to the registry; otherwise, return None.

    If the stored signatures do not satisfy the policies, return None, because the registry may have newer signatures.
    """
    if request.accepts(record):
        return record
    try:
        return await judge_record(folder, record, request)
    except UnverifiedError:
        return None
