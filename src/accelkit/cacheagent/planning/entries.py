"""Selection of namespace entries: the paths in the store that pods in a namespace use to read its caches.

The volumes of a namespace have these paths, and admission policies check only the namespace in a path. Therefore, an
entry must exist only for files that belong to a cache of this namespace.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from accelkit.cacheagent.planning.progress import NextStep, Progress
from accelkit.cacheagent.planning.world import Entry, World
from accelkit.gkm import names

# The API server does not validate the names in `workloadNamespaces`.
_NAMESPACE: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")


def is_namespace(text: str) -> bool:
    """Return whether a text is a valid namespace name, and therefore safe as a folder name."""
    return _NAMESPACE.fullmatch(text) is not None


def choose_entries(
    world: World,
    progress: Iterable[Progress],
    links: Mapping[str, str],
    uses: Mapping[str, Mapping[str, frozenset[str]]],
) -> frozenset[Entry]:
    """Return the desired entries of all namespaces.

    The previous digests in a status may be arbitrary. Therefore, existing entries for previous digests are kept, but
    new entries are not created for these digests.

    Args:
        world: observed values, including the existing entries.
        progress: states of all caches.
        links: targets of the links after the planned moves, keyed by link name.
        uses: names of folders that the containers of a pod may use, keyed by pod UID and cache key.
    """
    served: set[Entry] = set()
    named: set[Entry] = set()
    for each in progress:
        desired = each.desired
        for namespace in filter(is_namespace, desired.namespaces):
            named |= {(namespace, folder) for folder in desired.folders}
            if desired.delivered and desired.link in links:
                served.add((namespace, desired.link))
            # If the link points to the folder of the current digest, the cache was available earlier and has not been
            # rejected since.
            if each.step is NextStep.SERVE or (desired.folder and links.get(desired.link) == desired.folder):
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
    """Return the existing entries that may belong to caches with an invalid status."""
    namespaces = {key.partition("/")[0] for key in world.unreadable}
    links = {world.name_link(key) for key in world.unreadable}
    for namespace, name in world.entries:
        is_link = names.trim_folder(name) == ""
        if name in links or (not is_link and (namespace in namespaces or "" in namespaces)):
            yield namespace, name
