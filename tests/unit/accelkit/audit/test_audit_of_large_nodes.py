"""A node whose allocations find no room in a ConfigMap."""

from __future__ import annotations

import msgspec
from test_audit import findings, held, pod

NOT_PUBLISHED = (
    "not all allocations of n are published: "
    "2 pods with many containers exceed the size of its ConfigMap and are not compared"
)


def test_what_was_left_out_is_a_finding_and_not_held_against_the_kubelet():
    pods = [pod("p", {"c": ("a", 4)}), pod("q", {"c": ("a", 2)})]
    shown = msgspec.structs.replace(held(p={"c": {"a": 4}}), left_out=2)
    assert findings(pods, shown) == [("not_published", NOT_PUBLISHED)]


def test_what_was_published_is_compared_all_the_same():
    shown = msgspec.structs.replace(held(p={"c": {"a": 3}}), left_out=2)
    assert [kind for kind, _ in findings([pod("p", {"c": ("a", 4)})], shown)] == ["not_published", "kubelet_differs"]
