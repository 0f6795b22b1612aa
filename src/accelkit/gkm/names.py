"""Names and labels of the objects that are created for a cache, and paths of its files on a node.

The name of a cache may have up to 253 characters. Labels and the names of pinned claims must be shorter, so long names
are truncated and end with a hash.
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

# The folder for caches on each node. Only the cache agent writes to it.
HOST_FOLDER: Final = PurePosixPath("/var/lib/accelkit/kernel-caches")
_LINKS: Final = "claims"
_NAMESPACES: Final = "namespaces"
# The suffix of the name of the volume that is copied if a pod requests a private copy with an annotation.
COPY_SOURCE_SUFFIX: Final = "-from"
PINNED_DIGITS: Final = 12
_PINNED: Final = re.compile(rf"(.+)-([0-9a-f]{{{PINNED_DIGITS}}})", re.DOTALL)
_MAX_LABEL: Final = 63
_MAX_NAME: Final = 253
_HASH: Final = 10
# Users select mount paths. With fewer digits, a user could find two paths with the same hash.
_PATH_DIGITS: Final = 32


def shorten_name(name: str, most: int = _MAX_LABEL) -> str:
    """Return a name with at most `most` characters. A truncated name ends with a hash, so that it remains unique."""
    if len(name) <= most:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_HASH]
    # A name must not contain a dot before the dash. Dashes are preserved, because admission policies match a long name
    # by its prefix.
    return f"{name[: most - _HASH - 1].removesuffix('.')}-{digest}"


def build_labels(key: str, digest: str = "") -> dict[str, str]:
    """Return the labels of the objects that are created for a cache.

    Args:
        key: the key of the cache: `NAMESPACE/NAME`, or `/NAME` for a ClusterGKMCache.
        digest: the digest, `sha256:…`; empty for objects that do not belong to a specific digest.
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
    """Return the first `PINNED_DIGITS` hexadecimal digits of a digest (`sha256:…`)."""
    return digest.removeprefix("sha256:")[:PINNED_DIGITS]


def name_claim(key: str) -> str:
    """Return the name of the claim that users mount, which is the name of the cache."""
    return key.partition("/")[2]


def name_pinned_claim(key: str, digest: str) -> str:
    """Return the name of the pinned claim of a digest."""
    return f"{begin_pinned_claim(key)}-{short_digest(digest)}"


def begin_pinned_claim(key: str) -> str:
    """Return the common name prefix of a cache's pinned claims, without the dash and the digits."""
    return shorten_name(name_claim(key), _MAX_NAME - PINNED_DIGITS - 1)


def split_pinned_claim(claim: str) -> tuple[str, str]:
    """Return the prefix and the digits of the name of a pinned claim, or two empty strings for any other name."""
    found = _PINNED.fullmatch(claim)
    return (found[1], found[2]) if found is not None else ("", "")


def name_volume(key: str, namespace: str, digest: str = "") -> str:
    """Return the name of a PersistentVolume, which is unique in the cluster.

    Args:
        key: the key of the cache.
        namespace: the namespace whose pods use the volume.
        digest: the pinned digest of the volume; empty for the volume that contains the cache's current digest.
    """
    whole = f"{key}\n{namespace}\n{digest}"
    kind = short_digest(digest) if digest else "current"
    return f"{VOLUME_PREFIX}{kind}-{hashlib.sha256(whole.encode()).hexdigest()[:20]}"


def name_private_copy(*parts: str) -> str:
    """Return the name of a private copy, which is the name of its volume and of the init container that fills it.

    Args:
        parts: the name of the volume that is copied, if the volume is defined in the pod.
    """
    return VOLUME_PREFIX + hashlib.sha256("\n".join(parts).encode()).hexdigest()[:10]


def name_folder(digest: str, mount_path: str) -> str:
    """Return the name of the folder in `HOST_FOLDER` for a digest and a mount path."""
    name = digest.replace(":", "-")
    # Extraction uses the same name. The name depends on the mount path, because group files contain absolute paths.
    return f"{name}-{hashlib.sha256(mount_path.encode()).hexdigest()[:_PATH_DIGITS]}" if mount_path else name


def trim_folder(folder: str) -> str:
    """Return a folder name without the hash of the mount path; empty if it is not the name of a digest folder."""
    algorithm, _, rest = folder.partition("-")
    return f"{algorithm}-{rest.partition('-')[0]}" if rest else ""


def build_cache_path(digest: str, mount_path: str, root: PurePosixPath | Path = HOST_FOLDER) -> str:
    """Return the node path of the files for a digest. Volumes from earlier releases have this path."""
    return str(root / name_folder(digest, mount_path) / "cache")


def build_link_path(key: str, root: PurePosixPath | Path = HOST_FOLDER) -> str:
    """Return the path of a cache's link on each node. The link points to the files of the current digest.

    Volumes from earlier releases have this path.
    """
    return str(root / _LINKS / _name_link(key))


def build_entry_path(namespace: str, entry: str, root: PurePosixPath | Path = HOST_FOLDER) -> str:
    """Return the path of a namespace entry on each node.

    Args:
        namespace: the namespace whose pods may read the files.
        entry: the name of a cache's link or of a digest folder; empty for the folder of the namespace.
        root: the folder of the store.
    """
    return str(root / _NAMESPACES / namespace / entry)


def build_volume_path(
    key: str, namespace: str, digest: str = "", mount_path: str = "", root: PurePosixPath | Path = HOST_FOLDER
) -> str:
    """Return the path of a PersistentVolume on each node. Only the cache agent creates files at this path.

    Args:
        key: the key of the cache.
        namespace: the namespace whose pods use the volume.
        digest: the pinned digest of the volume; empty for the volume that contains the cache's current digest.
        mount_path: the mount path for which the files of the digest are extracted.
        root: the folder of the store.
    """
    return build_entry_path(namespace, name_folder(digest, mount_path) if digest else _name_link(key), root)


def _name_link(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:20]
