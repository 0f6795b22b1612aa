"""Which pods the API server sends: an expression that names the claims of all caches, as long as there is room.

All conditions of a webhook have to hold, so an "or" over caches is one expression, and an expression has room for
100,000 characters. Where the claims do not fit, it says less exactly which pods it is about: more of them are sent, and
come back as they are.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import Final

from accelkit.gkm.names import MOUNT_ANNOTATION, PINNED_ANNOTATION, WRITABLE_ANNOTATION, name_claim, shorten_name
from accelkit.gkm.objects import Cache

MAX_EXPRESSION: Final = 60_000
_PINNED_DIGITS: Final = 13
_MAX_CLAIM: Final = 253
# Others do not exist, and what is no name must not become a part of the expression.
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
_OURS: Final = (MOUNT_ANNOTATION, PINNED_ANNOTATION, WRITABLE_ANNOTATION)

Claim = tuple[str, str]


class Exactness(StrEnum):
    """How exactly the pods are named.

    CLAIMS: those that mount a claim of a cache. NAMES: those that mount a claim of this name, in any namespace with
    caches. NAMESPACES: those that mount any claim in such a namespace. ALL: those that mount any claim.
    """

    CLAIMS = "claims"
    NAMES = "names"
    NAMESPACES = "namespaces"
    ALL = "all"


def list_claims_of(caches: Iterable[Cache]) -> frozenset[Claim]:
    """Return namespace and name of each claim that follows a cache."""
    return frozenset(
        (namespace, name)
        for cache in caches
        for namespace in cache.namespaces
        # The second is what claims of one digest begin with, where the name is long.
        for name in (name_claim(cache.key), shorten_name(name_claim(cache.key), _MAX_CLAIM - _PINNED_DIGITS))
        if _NAME.fullmatch(namespace) and _NAME.fullmatch(name)
    )


def build_expression(claims: Collection[Claim], most: int = MAX_EXPRESSION) -> tuple[str, Exactness]:
    """Return an expression (CEL) for the pods that the webhook has to see, and how exact it is.

    Args:
        claims: namespace and name of each.
        most: characters of the lists in it.
    """
    namespaces = _list_texts({namespace for namespace, _ in claims})
    names = _list_texts({name for _, name in claims})
    whole = _list_texts({f"{namespace}/{name}" for namespace, name in claims})
    if not claims:
        return _mentions_us(), Exactness.CLAIMS
    if len(whole) <= most:
        matches, exactness = _of_claims(f"(request.namespace + '/' + name) in {whole}"), Exactness.CLAIMS
    elif len(namespaces) + len(names) <= most:
        in_namespace = f"request.namespace in {namespaces}"
        matches, exactness = f"{in_namespace} && {_of_claims(f'name in {names}')}", Exactness.NAMES
    elif len(namespaces) <= most:
        matches, exactness = f"request.namespace in {namespaces} && {_of_claims('true')}", Exactness.NAMESPACES
    else:
        matches, exactness = _of_claims("true"), Exactness.ALL
    return f"({_mentions_us()}) || ({matches})", exactness


def _mentions_us() -> str:
    ours = " || ".join(f"'{each}' in object.metadata.annotations" for each in _OURS)
    return f"has(object.metadata.annotations) && ({ours})"


def _of_claims(condition: str) -> str:
    """Return whether a condition holds for the name of a claim of the pod, or for that of the cache it is pinned of."""
    claim = "volume.persistentVolumeClaim.claimName"
    cache = f"{claim}.matches('.-[0-9a-f]{{12}}$') ? {claim}.substring(0, size({claim}) - {_PINNED_DIGITS}) : {claim}"
    return (
        f"has(object.spec.volumes) && object.spec.volumes.exists(volume, has(volume.persistentVolumeClaim) && "
        f"[{claim}, {cache}].exists(name, {condition}))"
    )


def _list_texts(texts: Collection[str]) -> str:
    return "[" + ",".join(f"'{each}'" for each in sorted(texts)) + "]"
