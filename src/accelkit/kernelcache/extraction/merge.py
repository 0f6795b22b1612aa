"""Layers that were unpacked beside each other become one tree, later ones over earlier ones."""

from __future__ import annotations

import os
from pathlib import Path

from accelkit.errors import CacheError


def merge(trees: list[Path]) -> Path:
    """Move the files of later trees into the first one and return it.

    Raises:
        CacheError: there is none, or one has a file where another has a folder.
    """
    if not trees:
        raise CacheError("the image has no layers")
    first, *later = trees
    for tree in later:
        for folder, folders, files in os.walk(tree):
            target = first / Path(folder).relative_to(tree)
            for name in folders:
                if (target / name).exists() and not (target / name).is_dir():
                    raise CacheError(f"the image's layers have {name} as a file and as a folder")
                (target / name).mkdir(exist_ok=True)
            for name in files:
                if (target / name).is_dir():
                    raise CacheError(f"the image's layers have {name} as a file and as a folder")
                (Path(folder) / name).replace(target / name)
    return first
