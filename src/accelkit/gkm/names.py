"""Names and labels of the objects that are created for a cache, and the paths of its files on a node.

Names of caches may have up to 253 characters. Labels and pinned claims allow fewer, so longer names are truncated and
end in a hash.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path, PurePosixPath
from typing import Final

from accelkit.kube.paths import build_collection_path
from accelkit.model.keys import CACHE_DIGEST_LABEL, CACHE_NAME_LABEL, CACHE_SCOPE_LABEL, COMPONENT_LABEL, PART_OF_LABELS

API: Final = "gkm.io/v1alpha1"
POLICY_API: Final = "accelkit.io/v1alpha1"
CACHES: Final = build_collection_path(API, "gkmcaches")
CLUSTER_CACHES: Final = build_collection_path(API, "clustergkmcaches")
CACHE_NODES: Final = build_collection_path(API, "gkmcachenodes")
CLUSTER_CACHE_NODES: Final = build_collection_path(API, "clustergkmcachenodes")
SIGNER_POLICIES: Final = build_collection_path(POLICY_API, "signerpolicies")

VOLUME_PREFIX: Final = "accelkit-cache-"
FIELD_MANAGER: Final = "accelkit-cache-controller"

# The folder of the caches on each node. Only the cache agent writes to it.
HOST_FOLDER: Final = PurePosixPath("/var/lib/accelkit/kernel-caches")
_LINKS: Final = "claims"
_NAMESPACES: Final = "namespaces"
# Suffix of the name of the volume that is copied if a pod requests a private copy by annotation.
COPY_SOURCE_SUFFIX: Final = "-from"
PINNED_DIGITS: Final = 12
_PINNED: Final = re.compile(rf"(.+)-([0-9a-f]{{{PINNED_DIGITS}}})", re.DOTALL)
_MAX_LABEL: Final = 63
_MAX_NAME: Final = 253
_HASH: Final = 10
# Users choose mount paths. With fewer digits, they could find two paths with the same hash.
_PATH_DIGITS: Final = 32


def shorten_name(name: str, most: int = _MAX_LABEL) -> str:
    """Return a name of at most `most` characters; long names with the same beginning get different hashes."""
    if len(name) <= most:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_HASH]
    # A name must not have a dot before the dash. Dashes stay: admission policies match a long name by its prefix.
    return f"{name[: most - _HASH - 1].removesuffix('.')}-{digest}"


def build_labels(key: str, digest: str = "") -> dict[str, str]:
    """Return the labels of the objects that are created for a cache.

    Args:
        key: `NAMESPACE/NAME`, or `/NAME`.
        digest: `sha256:…`; empty for objects that do not belong to one digest.
    """
    namespace, _, name = key.partition("/")
    labels = {
        CACHE_NAME_LABEL: shorten_name(name),
        CACHE_SCOPE_LABEL: shorten_name(namespace) if namespace else "cluster",
    }
    if digest:
        labels[CACHE_DIGEST_LABEL] = short_digest(digest)
    return {**PART_OF_LABELS, COMPONENT_LABEL: "kernel-cache", **labels}


def short_digest(digest: str) -> str:
    """Return the first `PINNED_DIGITS` hexadecimal digits of `sha256:…`."""
    return digest.removeprefix("sha256:")[:PINNED_DIGITS]


def name_claim(key: str) -> str:
    """Return the name of the claim that users mount, which equals the name of the cache."""
    return key.partition("/")[2]


def name_pinned_claim(key: str, digest: str) -> str:
    """Return the name of the claim of one digest."""
    return f"{begin_pinned_claim(key)}-{short_digest(digest)}"


def begin_pinned_claim(key: str) -> str:
    """Return the common prefix of a cache's pinned claims, without the dash and the digits."""
    return shorten_name(name_claim(key), _MAX_NAME - PINNED_DIGITS - 1)


def split_pinned_claim(claim: str) -> tuple[str, str]:
    """Return the prefix and the digits of the name of a pinned claim; both are empty for any other name."""
    found = _PINNED.fullmatch(claim)
    return (found[1], found[2]) if found is not None else ("", "")


def name_volume(key: str, namespace: str, digest: str = "") -> str:
    """Return the name of a PersistentVolume; it is unique in the cluster.

    Args:
        key: the key of the cache.
        namespace: the namespace whose pods use the volume.
        digest: the digest that the volume is pinned to; empty for the volume that follows the cache.
    """
    whole = f"{key}\n{namespace}\n{digest}"
    kind = short_digest(digest) if digest else "current"
    return f"{VOLUME_PREFIX}{kind}-{hashlib.sha256(whole.encode()).hexdigest()[:20]}"


def name_private_copy(*parts: str) -> str:
    """Return the name of a private copy: the name of its volume and of the init container that fills it.

    Args:
        parts: the name of the volume that is copied, if the pod defines one.
    """
    return VOLUME_PREFIX + hashlib.sha256("\n".join(parts).encode()).hexdigest()[:10]


def name_folder(digest: str, mount_path: str) -> str:
    """Return the name of the folder of a digest for a mount path, below `HOST_FOLDER`."""
    name = digest.replace(":", "-")
    # Extraction uses the same name. The path is part of it because group files name their kernels by absolute path.
    return f"{name}-{hashlib.sha256(mount_path.encode()).hexdigest()[:_PATH_DIGITS]}" if mount_path else name


def trim_folder(folder: str) -> str:
    """Return the name of the folder of a digest without its mount path; empty for any other name."""
    algorithm, _, rest = folder.partition("-")
    return f"{algorithm}-{rest.partition('-')[0]}" if rest else ""


def build_cache_path(digest: str, mount_path: str, root: PurePosixPath | Path = HOST_FOLDER) -> str:
    """Return the path of the files of a digest on a node; volumes of earlier releases have this path."""
    return str(root / name_folder(digest, mount_path) / "cache")


def build_link_path(key: str, root: PurePosixPath | Path = HOST_FOLDER) -> str:
    """Return the path of a cache's link, which points to the files of the current digest on each node.

    Volumes of earlier releases have this path.
    """
    return str(root / _LINKS / _name_link(key))


def build_entry_path(namespace: str, entry: str, root: PurePosixPath | Path = HOST_FOLDER) -> str:
    """Return the path of an entry of a namespace on each node.

    Args:
        namespace: the namespace whose pods may read the files.
        entry: the name of a cache's link or of the folder of a digest; empty for the folder of the namespace.
        root: the folder of the store.
    """
    return str(root / _NAMESPACES / namespace / entry)


def build_volume_path(
    key: str, namespace: str, digest: str = "", mount_path: str = "", root: PurePosixPath | Path = HOST_FOLDER
) -> str:
    """Return the path of a PersistentVolume on each node; only the cache agent creates it.

    Args:
        key: the key of the cache.
        namespace: the namespace whose pods use the volume.
        digest: the digest that the volume is pinned to; empty for the volume that follows the cache.
        mount_path: the mount path for which the files of the digest are prepared.
        root: the folder of the store.
    """
    return build_entry_path(namespace, name_folder(digest, mount_path) if digest else _name_link(key), root)


def _name_link(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:20]
