"""From a registry onto the disk: verify, judge, fetch and unpack in one stream, publish.

Nothing is written before a signature holds and the sizes are within limits; nothing is visible before the digest of
every byte holds.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
from pathlib import Path

import msgspec

from accelkit.errors import CacheError
from accelkit.kernelcache.extraction.checks import bounded, fitting, judged, sentences
from accelkit.kernelcache.extraction.folder import CACHE, MANIFEST, Place, completed, locked
from accelkit.kernelcache.extraction.group_paths import relocate_group_files
from accelkit.kernelcache.extraction.merge import merge
from accelkit.kernelcache.extraction.order import Extracted, Order
from accelkit.kernelcache.extraction.pipeline import in_thread, to_the_end
from accelkit.kernelcache.extraction.record import CompletionRecord, boot, measured
from accelkit.kernelcache.extraction.rules import Limits
from accelkit.kernelcache.extraction.unpack import Allowance, unpack
from accelkit.kernelcache.images import CacheImage, own_architecture
from accelkit.kernelcache.oci import Descriptor
from accelkit.kernelcache.registry import RegistryClient
from accelkit.kernelcache.signatures import verify_image
from accelkit.kernelcache.signatures.image import Verification

_PARALLEL_LAYERS = 3
_MORE_ROOM = "free some space, or extract to another disk"


async def extract_image(client: RegistryClient, order: Order) -> Extracted:
    """Extract a cache image, once per digest and mount path. Asked again, it costs at most the verification.

    Raises:
        UnverifiedError: its signatures do not satisfy the policies; nothing was written.
        CacheError: it is no cache image, fits no card of the node, holds what it must not, or the disk is full;
            nothing of it is visible.
        RegistryError: the registry failed; the same.
    """
    if order.image.digest and (found := await _found(order, order.image.digest)) is not None:
        return found
    verification = None
    if order.policies is not None:
        verification = await verify_image(
            client, order.image, order.policies, namespace=order.namespace, clock=order.clock
        )
    raw = verification.manifest if verification is not None else await client.manifest(order.image)
    place = Place.of(order.base, raw.digest, order.mount_path)
    checked = None if await asyncio.to_thread(completed, place) else await judged(client, order, raw)
    async with locked(place, order.lock_seconds):
        try:
            # It was there, or somebody else was faster.
            if (present := await asyncio.to_thread(completed, place)) is not None:
                record = _renewed(present, order, verification)
                await to_the_end(lambda: place.renew(record))
                return _there(place, record, order)
            image, verdicts = checked or await judged(client, order, raw)
            record = await _extract(client, image, place, order, verification)
        except OSError as exc:
            raise _of_disk(exc, place) from exc
        finally:
            await to_the_end(lambda: _tidy(place))
    return Extracted(place, record, fresh=True, verdicts=verdicts)


def _renewed(record: CompletionRecord, order: Order, verification: Verification | None) -> CompletionRecord:
    """The record of a cache that satisfies what is asked now; what was satisfied once is not lost without a reason."""
    if verification is None:
        return record
    return msgspec.structs.replace(
        record,
        image=str(verification.image),
        policy_digest=order.policy_digest,
        signatures=sentences(verification),
    )


def _tidy(place: Place) -> None:
    # What cannot be deleted now is in nobody's way, and the next try says so if it still cannot be.
    with contextlib.suppress(OSError):
        place.clear_leftovers()
        place.clear_abandoned()


async def _found(order: Order, digest: str) -> Extracted | None:
    place = Place.of(order.base, digest, order.mount_path)
    record = await asyncio.to_thread(completed, place)
    # Other policies than those that were satisfied then have to be satisfied anew.
    if record is None or order.policy_digest not in {"", record.policy_digest}:
        return None
    return _there(place, record, order)


def _there(place: Place, record: CompletionRecord, order: Order) -> Extracted:
    """A cache that is there whole. It may be another node's that extracted it, and so fit no card of this one."""
    own = own_architecture()
    if record.cpu not in {"", own}:
        raise CacheError(
            f"{place.folder} holds the cache for linux/{record.cpu} of this image, and this is linux/{own}",
            next_step="extract to another folder",
        )
    return Extracted(place, record, fresh=False, verdicts=fitting(record.labels, order.node))


async def _extract(
    client: RegistryClient, image: CacheImage, place: Place, order: Order, verification: Verification | None
) -> CompletionRecord:
    limits = bounded(image, order.limits)
    await to_the_end(place.clear_leftovers)
    _check_room(place, image)
    place.partial.mkdir(mode=0o700)
    trees = await _unpack_layers(client, image, place.partial, limits)
    files, size_bytes = await to_the_end(lambda: _finish(image, place, trees))
    record = CompletionRecord(
        image=str(order.image.at(place.digest)),
        format=image.labels.format,
        mount_path=place.mount_path,
        files=files,
        size_bytes=size_bytes,
        policy_digest=order.policy_digest,
        signatures=sentences(verification),
        extracted_at=order.clock().isoformat(timespec="seconds"),
        labels=image.labels,
        cpu=own_architecture() if image.reference.digest != place.digest else "",
        boot=boot(),
    )
    await to_the_end(lambda: place.publish(record))
    return record


def _check_room(place: Place, image: CacheImage) -> None:
    """Tell a full disk before it is full, as far as the image says what it needs."""
    needed = image.labels.size_bytes or sum(layer.size for layer in image.manifest.layers)
    disk = os.statvfs(place.folder.parent)
    free = disk.f_bavail * disk.f_frsize
    if needed > free:
        raise CacheError(
            f"{place.folder.parent} has {free} bytes left and the cache needs {needed}", next_step=_MORE_ROOM
        )


async def _unpack_layers(client: RegistryClient, image: CacheImage, partial: Path, limits: Limits) -> list[Path]:
    allowance = Allowance(limits)
    turn = asyncio.Semaphore(_PARALLEL_LAYERS)
    prefixes = tuple(f"io.{image.labels.format}.{each}" for each in ("cache", "manifest"))

    async def one(number: int, layer: Descriptor) -> Path:
        tree = partial / f"layer-{number}"
        tree.mkdir()
        async with turn:
            await in_thread(
                client.stream(image.reference, layer),
                lambda chunks: unpack(chunks, layer.media_type, tree, allowance, prefixes),
            )
        return tree

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(number, layer)) for number, layer in enumerate(image.manifest.layers)]
    except BaseExceptionGroup as exc:
        # One reason is enough; the others mostly follow from it.
        raise exc.exceptions[0] from None
    return [task.result() for task in tasks]


def _finish(image: CacheImage, place: Place, trees: list[Path]) -> tuple[int, int]:
    """Put the layers together, and make the group files say where workloads will find their files.

    Returns:
        How many files there are, and their bytes.
    """
    tree = merge(trees)
    cache = tree / f"io.{image.labels.format}.cache"
    if not cache.is_dir():
        raise CacheError(f"the image has no {cache.name}, although its labels say so")
    manifest = tree / f"io.{image.labels.format}.manifest" / "manifest.json"
    if manifest.is_file():
        manifest.rename(place.partial / MANIFEST)
    cache.rename(place.partial / CACHE)
    for each in trees:
        shutil.rmtree(each, ignore_errors=True)
    place.partial.chmod(0o755)
    relocate_group_files(place.partial / CACHE, place.mount_path)
    return measured(place.partial / CACHE)


def _of_disk(exc: OSError, place: Place) -> CacheError:
    if exc.errno in {errno.ENOSPC, errno.EDQUOT}:
        return CacheError(
            f"the disk of {place.folder.parent} is full; nothing of the cache was kept",
            next_step=_MORE_ROOM,
        )
    return CacheError(f"{place.folder.parent} cannot be written: {exc.strerror or exc}")
