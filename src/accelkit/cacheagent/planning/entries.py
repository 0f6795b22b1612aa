"""Entries of namespaces: the paths in the store through which the pods of a namespace read its caches; no I/O.

The volumes of a namespace have these paths, and admission policies compare only the namespace in them. So an entry must
exist only for files that a cache of this namespace was found to have.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from accelkit.cacheagent.planning.progress import Progress, Step
from accelkit.cacheagent.planning.world import Entry, World
from accelkit.gkm import names

# The name of a namespace in `workloadNamespaces` may be any text.
_NAMESPACE: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")


def is_namespace(text: str) -> bool:
    """Return whether a text is a valid name of a namespace, and therefore a plain folder name."""
    return _NAMESPACE.fullmatch(text) is not None


def choose_entries(
    world: World,
    progress: Iterable[Progress],
    links: Mapping[str, str],
    uses: Mapping[str, Mapping[str, frozenset[str]]],
) -> frozenset[Entry]:
    """Return the entries that each namespace has from now on.

    A status may name any digest as a former one, so the entry for a former digest is kept but never created.

    Args:
        world: contains the existing entries.
        progress: the states of all caches.
        links: by the name of the link, its target after the next moves.
        uses: by the UID of a pod and the key of a cache, the folders that its containers may have been given.
    """
    served: set[Entry] = set()
    named: set[Entry] = set()
    for each in progress:
        desired = each.desired
        for namespace in filter(is_namespace, desired.namespaces):
            named |= {(namespace, folder) for folder in desired.folders}
            if desired.delivered and desired.link in links:
                served.add((namespace, desired.link))
            # A link to the current digest means that the cache was served before, and that it has not been refused
            # since.
            if each.step is Step.SERVE or (desired.folder and links.get(desired.link) == desired.folder):
                served.add((namespace, desired.folder))
    used = {
        (pod.namespace, folder)
        for pod in world.pods
        for folders in uses.get(pod.uid, {}).values()
        for folder in folders
    }
    kept = {
        (namespace, name)
        for namespace, name in world.entries
        if (namespace, name) in used or (namespace, names.trim_folder(name)) in named
    }
    return frozenset(served | kept | set(_list_unreadable(world)))


def _list_unreadable(world: World) -> Iterator[Entry]:
    """Return the entries that caches with an invalid status may have."""
    namespaces = {key.partition("/")[0] for key in world.unreadable}
    links = {world.name_link(key) for key in world.unreadable}
    for namespace, name in world.entries:
        is_link = names.trim_folder(name) == ""
        if name in links or (not is_link and (namespace in namespaces or "" in namespaces)):
            yield namespace, name
