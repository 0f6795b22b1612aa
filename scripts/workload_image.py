"""A small image with a shell and what the examples' workloads run in it, made of one static busybox."""

from __future__ import annotations

import functools
import gzip
import io
import json
import shutil
import subprocess
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

from accelkit.errors import ConfigurationError
from accelkit.kernelcache.oci.documents import OCI_CONFIG, OCI_MANIFEST, Descriptor
from accelkit.kernelcache.oci.platform import read_host_architecture
from accelkit.kernelcache.oci.reference import Reference, compute_digest
from accelkit.kernelcache.registry import RegistryClient

_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
_CREATED = "1970-01-01T00:00:00Z"
_SECONDS = 30


def find_busybox() -> Path:
    """Return the path of a busybox that needs no libraries.

    Raises:
        ConfigurationError: there is none.
    """
    found = shutil.which("busybox")
    # The program's interpreter is named in its first page.
    if found is None or b"ld-linux" in Path(found).read_bytes()[:4096]:
        raise ConfigurationError("there is no static busybox on PATH", next_step="install Debian's busybox-static")
    return Path(found)


def build_layer(busybox: Path) -> bytes:
    """Return the archive of a root with busybox under the names of all that it does; the same bytes each time."""
    listed = subprocess.run([busybox, "--list"], capture_output=True, text=True, timeout=_SECONDS, check=True).stdout
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for folder, mode in {"bin": 0o755, "etc": 0o755, "tmp": 0o1777}.items():
            _add(archive, folder, mode=mode, kind=tarfile.DIRTYPE)
        content = busybox.read_bytes()
        _add(archive, "bin/busybox", mode=0o755, content=content)
        for name in sorted({*listed.split()} - {"busybox"}):
            _add(archive, f"bin/{name}", mode=0o777, kind=tarfile.SYMTYPE, target="busybox")
        _add(archive, "etc/passwd", mode=0o644, content=b"root:x:0:0::/:/bin/sh\nuser:x:1000:1000::/tmp:/bin/sh\n")
    return gzip.compress(out.getvalue(), mtime=0)


def _add(
    archive: tarfile.TarFile,
    name: str,
    *,
    mode: int,
    content: bytes = b"",
    kind: bytes = tarfile.REGTYPE,
    target: str = "",
) -> None:
    info = tarfile.TarInfo(name)
    info.mode, info.type, info.size, info.linkname = mode, kind, len(content), target
    archive.addfile(info, io.BytesIO(content))


async def push_workload_image(client: RegistryClient, reference: Reference, busybox: Path) -> str:
    """Push the image under a tag; return its digest.

    Raises:
        RegistryError: the registry refuses it, or is not reached.
    """
    layer = build_layer(busybox)
    config = json.dumps(
        {
            "architecture": read_host_architecture(),
            "config": {"Cmd": ["sh"], "Env": ["PATH=/bin"]},
            "created": _CREATED,
            "os": "linux",
            "rootfs": {"type": "layers", "diff_ids": [compute_digest(gzip.decompress(layer))]},
        }
    ).encode()
    described = []
    for kind, blob in ((OCI_CONFIG, config), (_LAYER, layer)):
        descriptor = Descriptor(kind, compute_digest(blob), len(blob))
        await client.uploads.push_blob(reference, descriptor, functools.partial(_read, blob))
        described.append({"mediaType": kind, "digest": descriptor.digest, "size": descriptor.size})
    manifest = {"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": described[0], "layers": described[1:]}
    return await client.uploads.push_manifest(reference, json.dumps(manifest).encode(), OCI_MANIFEST)


async def _read(content: bytes) -> AsyncIterator[bytes]:
    yield content
