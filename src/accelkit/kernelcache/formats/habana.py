"""Habana's recipe cache: a flat folder that contains `<graph>_<device>_syn<version>.recipe` and `.metadata` files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from accelkit.kernelcache.formats.cache import Target
from accelkit.kernelcache.formats.entries import HabanaRecipe
from accelkit.kernelcache.formats.tree import Tree

_RECIPE: Final = re.compile(r"(\d+)_([a-f0-9]+)_syn([\d.]+[a-f0-9]*)\.recipe", re.ASCII)
# The fingerprint of the device does not identify the Gaudi model.
TARGET: Final = Target("hpu")


def read_recipes(tree: Tree) -> Iterator[HabanaRecipe]:
    """Yield the recipes directly in the root folder."""
    for name in tree.list_names(""):
        if name in tree and (parts := _RECIPE.fullmatch(name)):
            yield HabanaRecipe(
                graph_hash=parts[1],
                device_id=parts[2],
                synapse_version=parts[3],
                recipe_size=tree.sizes[name],
                metadata_size=tree.sizes.get(f"{name.removesuffix('.recipe')}.metadata", 0),
            )
