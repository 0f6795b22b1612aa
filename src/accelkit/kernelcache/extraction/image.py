"""Extraction of a cache image: verify, check, fetch and unpack in one stream, then publish.

No file is written before the signatures and sizes are checked. No file is visible before all digests are verified.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
from pathlib import Path

import msgspec

from accelkit.errors import CacheError, raise_first
from accelkit.kernelcache.extraction.assembly import UnpackedLayer, assemble
from accelkit.kernelcache.extraction.checks import check_image, describe_signers, require_fit, tighten_limits
from accelkit.kernelcache.extraction.folder import CACHE, Place, find_other, lock_place, read_completed
from accelkit.kernelcache.extraction.integrity.content import digest_contents
from accelkit.kernelcache.extraction.kept_signatures import find_accepted, judge_record, keep_signatures
from accelkit.kernelcache.extraction.reader_thread import run_in_thread, run_to_completion
from accelkit.kernelcache.extraction.record import CompletionRecord, format_time, read_boot_id
from accelkit.kernelcache.extraction.request import ExtractionRequest, ExtractionResult
from accelkit.kernelcache.extraction.rules import Limits
from accelkit.kernelcache.extraction.unpack import Allowance, unpack
from accelkit.kernelcache.formats import ImageLabels
from accelkit.kernelcache.formats.cache import VLLM
from accelkit.kernelcache.formats.cache_image import CacheImage
from accelkit.kernelcache.formats.recorded import read_variables
from accelkit.kernelcache.oci.documents import Descriptor
from accelkit.kernelcache.oci.platform import read_host_architecture
from accelkit.kernelcache.registry import RegistryClient
from accelkit.kernelcache.signatures import verify_image
from accelkit.kernelcache.signatures.image import Verification

_PARALLEL_LAYERS = 3
_FREE_SPACE = "free disk space, or extract to another disk"


async def extract_image(client: RegistryClient, request: ExtractionRequest) -> ExtractionResult:
    """Extract a cache image once per digest and mount path; later calls only verify it again if necessary.

    If the call fails, no part of the cache is visible.

    Raises:
        UnverifiedError: the signatures of the image do not satisfy the policies; no file was written.
        CacheError: the image is not a cache image, fits no card of the node or has invalid content, or the disk is
            full.
        RegistryError: the registry failed.
    """
    if request.image.digest and (found := await _find_completed(request, request.image.digest)) is not None:
        return found
    verification = None
    if request.policies is not None:
        verification = await verify_image(
            client, request.image, request.policies, namespace=request.namespace, clock=request.clock
        )
    raw = verification.manifest if verification is not None else await client.read_manifest(request.image)
    place = Place.of(request.base, raw.digest, request.mount_path)
    checked = None if await asyncio.to_thread(read_completed, place) else await check_image(client, request, raw)
    async with lock_place(place, request.lock_seconds):
        try:
            # The cache already existed, or another process extracted it while this process waited for the lock.
            if (present := await asyncio.to_thread(read_completed, place)) is not None:
                record = _renew_record(present, request, verification)
                await run_to_completion(lambda: _write_renewed(place, record, verification))
                return _reuse(place, record, request)
            image, verdicts = checked or await check_image(client, request, raw)
            record = await _extract(client, image, place, request, verification)
        except OSError as exc:
            raise _convert_disk_error(exc, place) from exc
        finally:
            await run_to_completion(lambda: _tidy(place))
    return ExtractionResult(place, record, fresh=True, verdicts=verdicts)


def _renew_record(
    record: CompletionRecord, request: ExtractionRequest, verification: Verification | None
) -> CompletionRecord:
    """Return the record of a cache with the result of this verification, or the unchanged record without policies."""
    if verification is None:
        return record
    return msgspec.structs.replace(
        record,
        image=str(verification.image),
        policy_digest=request.policy_digest or "",
        signatures=describe_signers(verification.signatures),
        verified_at=format_time(request.clock()),
    )


def _write_renewed(place: Place, record: CompletionRecord, verification: Verification | None) -> None:
    if verification is not None:
        keep_signatures(place.folder, verification.material)
    place.renew(record)


def _tidy(place: Place) -> None:
    # A remaining folder that cannot be deleted is harmless. If the error persists, the next extraction reports it.
    with contextlib.suppress(OSError):
        place.clear_leftovers()
        place.clear_abandoned()


async def judge_again(request: ExtractionRequest) -> ExtractionResult | None:
    """Check an extracted cache against the policies and cards of a request, without access to the registry.

    If the cache was verified against other policies, its stored signatures are verified against the policies of the
    request.

    Args:
        request: the request, whose image has a digest.

    Returns:
        The cache; None if access to the registry is required because the cache is missing, has no stored signatures, or
        has signatures that were fetched too long ago.

    Raises:
        UnverifiedError: the stored signatures do not satisfy the policies. The registry may have newer signatures,
            which `extract_image` fetches.
        CacheError: the cache fits no card of the node, or its record cannot be written.
    """
    place = Place.of(request.base, request.image.require_digest(), request.mount_path)
    record = await asyncio.to_thread(read_completed, place)
    if record is None:
        return None
    judged = record if request.accepts(record) else await judge_record(place.folder, record, request)
    return None if judged is None else await _renew(place, record, judged, request)


async def _find_completed(request: ExtractionRequest, digest: str) -> ExtractionResult | None:
    place = Place.of(request.base, digest, request.mount_path)
    record = await asyncio.to_thread(read_completed, place)
    judged = None if record is None else await find_accepted(place.folder, record, request)
    return None if record is None or judged is None else await _renew(place, record, judged, request)


async def _renew(
    place: Place, record: CompletionRecord, judged: CompletionRecord, request: ExtractionRequest
) -> ExtractionResult | None:
    """Update the record of a cache, and return the cache; return None if the cache has since been deleted."""
    if judged != record:
        async with lock_place(place, request.lock_seconds):
            if await asyncio.to_thread(read_completed, place) is None:
                return None
            try:
                await run_to_completion(lambda: place.renew(judged))
            except OSError as exc:
                raise _convert_disk_error(exc, place) from exc
    return _reuse(place, judged, request)


def _reuse(place: Place, record: CompletionRecord, request: ExtractionRequest) -> ExtractionResult:
    """Return a cache after checking this node's cards and CPU, because another node may have extracted the cache."""
    own = read_host_architecture()
    if record.cpu not in {"", own}:
        raise CacheError(
            f"{place.folder} contains the cache of this image for linux/{record.cpu}, but this host is linux/{own}",
            next_step="extract to another folder",
        )
    return ExtractionResult(place, record, fresh=False, verdicts=require_fit(record.labels, request.node))


async def _extract(
    client: RegistryClient,
    image: CacheImage,
    place: Place,
    request: ExtractionRequest,
    verification: Verification | None,
) -> CompletionRecord:
    if (other := await asyncio.to_thread(find_other, place)) is not None:
        raise CacheError(
            f"{place.folder} contains the cache for {other.mount_path}, but this request is for {place.mount_path}",
            next_step="delete that folder once no workload uses it, or extract to another folder",
        )
    limits = tighten_limits(image, request.limits)
    await run_to_completion(place.clear_leftovers)
    _check_free_space(place, image)
    place.partial.mkdir(mode=0o700)
    layers = await _unpack_layers(client, image, place.partial, limits)
    contents = await run_to_completion(lambda: assemble(image.labels, place, layers))
    record = CompletionRecord(
        image=str(request.image.with_digest(place.digest)),
        format=image.labels.format,
        mount_path=place.mount_path,
        files=len(contents),
        size_bytes=sum(each.size for each in contents.values()),
        policy_digest=request.policy_digest or "",
        signatures=describe_signers(verification.signatures) if verification is not None else (),
        extracted_at=format_time(request.clock()),
        verified_at=format_time(request.clock()) if verification is not None else "",
        labels=_complete(image.labels, place.partial / CACHE),
        cpu=read_host_architecture() if image.reference.digest != place.digest else "",
        boot=read_boot_id() or "",
        content_digest=digest_contents(contents),
    )
    if verification is not None:
        await run_to_completion(lambda: keep_signatures(place.partial, verification.material))
    await run_to_completion(lambda: place.publish(record, protected=request.protect))
    return record


def _complete(labels: ImageLabels, cache: Path) -> ImageLabels:
    """Return the labels. If they do not contain vLLM's variables, add the variables from the files of the cache."""
    if labels.variables or labels.format != VLLM:
        return labels
    return msgspec.structs.replace(labels, variables=read_variables(cache))


def _check_free_space(place: Place, image: CacheImage) -> None:
    """Reject a cache if its size exceeds the free space. Without a size label, the size of its layers is used."""
    needed = image.labels.size_bytes or sum(layer.size for layer in image.manifest.layers)
    disk = os.statvfs(place.folder.parent)
    free = disk.f_bavail * disk.f_frsize
    if needed > free:
        raise CacheError(
            f"{place.folder.parent} has {free} bytes free, but the cache needs {needed}", next_step=_FREE_SPACE
        )


async def _unpack_layers(
    client: RegistryClient, image: CacheImage, partial: Path, limits: Limits
) -> list[UnpackedLayer]:
    allowance = Allowance(limits)
    slots = asyncio.Semaphore(_PARALLEL_LAYERS)
    prefixes = tuple(f"io.{image.labels.format}.{each}" for each in ("cache", "manifest"))

    async def unpack_layer(number: int, layer: Descriptor) -> UnpackedLayer:
        tree = partial / f"layer-{number}"
        tree.mkdir()
        async with slots:
            contents = await run_in_thread(
                client.stream_blob(image.reference, layer),
                lambda chunks: unpack(chunks, layer.media_type, tree, allowance, prefixes),
            )
        return UnpackedLayer(tree, contents)

    with raise_first(Exception):
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(unpack_layer(number, layer)) for number, layer in enumerate(image.manifest.layers)
            ]
    return [task.result() for task in tasks]


def _convert_disk_error(exc: OSError, place: Place) -> CacheError:
    if exc.errno in {errno.ENOSPC, errno.EDQUOT}:
        return CacheError(
            f"the disk of {place.folder.parent} is full; no part of the cache was kept",
            next_step=_FREE_SPACE,
        )
    return CacheError(f"cannot write to {place.folder.parent}: {exc.strerror or exc}")
