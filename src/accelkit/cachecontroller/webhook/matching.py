"""Which pods the API server sends: an expression that names the claims of all caches, as long as there is room.

All conditions of a webhook have to hold, so an "or" over caches is one expression, and an expression has room for
100,000 characters. Where the claims do not fit, it says less exactly which pods it is about: more of them are sent, and
come back as they are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import Final

from accelkit.gkm.names import (
    MOUNT_ANNOTATION,
    PINNED_ANNOTATION,
    PINNED_DIGITS,
    WRITABLE_ANNOTATION,
    begin_pinned_claim,
    name_claim,
)
from accelkit.gkm.objects import Cache

MAX_EXPRESSION: Final = 60_000
# Others do not exist, and what is no name must not become a part of the expression.
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
_OURS: Final = (MOUNT_ANNOTATION, PINNED_ANNOTATION, WRITABLE_ANNOTATION)

Claim = tuple[str, str]


class Exactness(StrEnum):
    """How exactly the pods are named.

    CLAIMS: those that mount a claim of a cache. NAMES: in the namespaces with the most caches, those that mount a claim
    of this name in any of them. NAMESPACES: in those namespaces, those that mount any claim. ALL: those that mount any
    claim.
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
        for name in (name_claim(cache.key), begin_pinned_claim(cache.key))
        if is_name(namespace) and is_name(name)
    )


def is_name(text: str) -> bool:
    """Return whether a namespace or claim may be called so."""
    return _NAME.fullmatch(text) is not None


def build_expression(claims: Collection[Claim], most: int = MAX_EXPRESSION) -> tuple[str, Exactness]:
    """Return an expression (CEL) for the pods that the webhook has to see, and how exact it is.

    Args:
        claims: namespace and name of each.
        most: characters of the lists in it.
    """
    if not claims:
        return _mentions_us(), Exactness.CLAIMS
    few = _choose_exact(claims, most)
    for exact in (few, set[str]()):
        if (found := _name_claims(claims, exact, most)) is not None:
            matches, exactness = found
            break
    else:
        matches, exactness = "true", Exactness.ALL
    return f"({_mentions_us()}) || ({_of_claims(matches)})", exactness


def _name_claims(claims: Collection[Claim], few: Collection[str], most: int) -> tuple[str, Exactness] | None:
    """Return a condition that names the claims of some namespaces one by one; None where it takes too much room."""
    exact = _list_texts({f"{namespace}/{name}" for namespace, name in claims if namespace in few})
    others = {(namespace, name) for namespace, name in claims if namespace not in few}
    whole = f"(request.namespace + '/' + name) in {exact}"
    if not others:
        return (whole, Exactness.CLAIMS) if len(exact) <= most else None
    namespaces, names = (_list_texts(set(each)) for each in zip(*others, strict=True))
    left = most - len(exact)
    within = f"{whole} || request.namespace in {namespaces}"
    if len(namespaces) + len(names) <= left:
        return f"{within} && name in {names}", Exactness.NAMES
    return (within, Exactness.NAMESPACES) if len(namespaces) <= left else None


def _choose_exact(claims: Collection[Claim], most: int) -> set[str]:
    """Return the namespaces whose claims are named one by one: all, or those with the fewest, in half of the room.

    So whoever makes caches by the thousand has his own pods sent, and not those of others.
    """
    sizes = Counter[str]()
    for namespace, name in claims:
        sizes[namespace] += len(namespace) + len(name) + len("'/',")
    if sizes.total() <= most:
        return set(sizes)
    chosen, room = set[str](), most // 2
    for namespace, size in sorted(sizes.items(), key=lambda each: (each[1], each[0])):
        room -= size
        if room < 0:
            break
        chosen.add(namespace)
    return chosen


def _mentions_us() -> str:
    ours = " || ".join(f"'{each}' in object.metadata.annotations" for each in _OURS)
    return f"has(object.metadata.annotations) && ({ours})"


def _of_claims(condition: str) -> str:
    """Return whether a condition holds for the name of a claim of the pod, or for that of the cache it is pinned of.

    The claim of a generic ephemeral volume is POD-VOLUME. A pod whose name is yet to be generated has none for it; a
    policy, which is asked later, knows that name.
    """
    named = "has(volume.persistentVolumeClaim) || has(volume.ephemeral) && has(object.metadata.name)"
    claim = (
        "has(volume.persistentVolumeClaim) ? volume.persistentVolumeClaim.claimName : "
        "object.metadata.name + '-' + volume.name"
    )
    cache = (
        f"claim.matches('.-[0-9a-f]{{{PINNED_DIGITS}}}$') ? "
        f"claim.substring(0, size(claim) - {PINNED_DIGITS + 1}) : claim"
    )
    return (
        f"has(object.spec.volumes) && object.spec.volumes.exists(volume, ({named}) && "
        f"[{claim}].exists(claim, [claim, {cache}].exists(name, {condition})))"
    )


def _list_texts(texts: Collection[str]) -> str:
    return "[" + ",".join(f"'{each}'" for each in sorted(texts)) + "]"
