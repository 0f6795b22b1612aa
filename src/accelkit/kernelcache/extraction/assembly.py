"""Assembly of unpacked layers into one cache. Paths in files are rewritten for the workloads."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from accelkit.errors import CacheError
from accelkit.kernelcache.extraction.folder import CACHE, MANIFEST, Place
from accelkit.kernelcache.extraction.integrity.content import FileContent
from accelkit.kernelcache.formats import ImageLabels
from accelkit.kernelcache.formats.cache import VLLM
from accelkit.kernelcache.formats.mounts import list_trees
from accelkit.kernelcache.formats.relocation.compile_index import INDEX_NAME
from accelkit.kernelcache.formats.relocation.moved_tree import MOST_READ, MovedTree


@dataclass(frozen=True)
class UnpackedLayer:
    """A layer that was unpacked to a separate folder, and the size and hash of each file, keyed by path."""

    tree: Path
    contents: Mapping[str, FileContent]


def assemble(labels: ImageLabels, place: Place, layers: Sequence[UnpackedLayer]) -> dict[str, FileContent]:
    """Assemble a cache from its unpacked layers in `place.partial`.

    Args:
        labels: the labels of the image. The cache format in the labels determines which folder in the layers contains
            the cache.
        place: the place of the cache.
        layers: the layers, in order, beginning with the lowest layer.

    Returns:
        The size and hash of each file, keyed by its path relative to the cache.

    Raises:
        CacheError: the layers conflict or contain no cache, or a file that contains paths to other files has an invalid
            format.
        OSError: the disk is full or not writable.
    """
    tree = _merge([each.tree for each in layers])
    cache = tree / f"io.{labels.format}.cache"
    if not cache.is_dir():
        raise CacheError(f"the image has no folder {cache.name}, although its labels state this format")
    manifest = tree / f"io.{labels.format}.manifest" / "manifest.json"
    if manifest.is_file():
        manifest.rename(place.partial / MANIFEST)
    cache.rename(place.partial / CACHE)
    for layer in layers:
        shutil.rmtree(layer.tree, ignore_errors=True)
    place.partial.chmod(0o755)
    below = f"{cache.name}/"
    contents = {
        path.removeprefix(below): content
        for layer in layers
        for path, content in layer.contents.items()
        if path.startswith(below)
    }
    return contents | _relocate(place.partial / CACHE, labels, place.mount_path)


def _merge(trees: list[Path]) -> Path:
    """Move the files of later trees into the first tree, replacing existing files, and return the first tree."""
    if not trees:
        raise CacheError("the image has no layers")
    first, *later = trees
    for tree in later:
        for folder, folders, files in os.walk(tree):
            target = first / Path(folder).relative_to(tree)
            for name in folders:
                if (target / name).exists() and not (target / name).is_dir():
                    raise CacheError(f"the image's layers contain {name} both as a file and as a folder")
                (target / name).mkdir(exist_ok=True)
            for name in files:
                if (target / name).is_dir():
                    raise CacheError(f"the image's layers contain {name} both as a file and as a folder")
                (Path(folder) / name).replace(target / name)
    return first


def _relocate(cache: Path, labels: ImageLabels, mount_path: str) -> dict[str, FileContent]:
    """Rewrite the paths to other files in each file for the workload; return the new size and hash of each file."""
    contents = {}
    moved = MovedTree(mount_path, {tree.sub_path: path for tree, path in list_trees(labels, mount_path)})
    for folder, _, names in os.walk(cache):
        for path in (Path(folder) / name for name in names):
            within = path.relative_to(cache).as_posix()
            # Only vLLM writes a list with this name. A cache in another format may contain an unrelated file with the
            # same name.
            if moved.concerns(within) and (labels.format == VLLM or path.name != INDEX_NAME):
                with path.open("rb") as file:
                    document = file.read(MOST_READ)
                rewritten = moved.rewrite(within, document, lambda named: (cache / named).exists())
                path.write_bytes(rewritten)
                contents[within] = FileContent.of(rewritten)
    return contents
