"""What a user wrote into an assignment is found, and does not change what is compared."""

import pytest
from test_audit import GIB, findings, held, inspection, pod

from accelkit.model.assignment import Assignment, Share, encode_assignment
from accelkit.model.keys import ASSIGNMENT_ANNOTATION


@pytest.mark.parametrize(
    ("limit", "written", "told"),
    [
        ("1", {"c": (Share("a", 16 * GIB),)}, "it assigns 16 GiB to container c, but the pod's limits allow 1 GiB"),
        ("16", {"c": (Share("a", 16),)}, "it assigns 16 B to container c, but the pod's limits allow 16 GiB"),
        (
            "1",
            {"c": (Share("a", GIB),), "ghost": (Share("a", 9 * GIB),)},
            "it assigns cards to container ghost, which requests none",
        ),
    ],
)
def test_forged_assignment_is_finding_and_not_counted(limit, written, told):
    forged = pod("p", {"c": ("a", int(limit))})
    forged.metadata.annotations[ASSIGNMENT_ANNOTATION] = encode_assignment(Assignment(written))
    assert findings([forged], held(p={"c": {"a": int(limit)}})) == [
        ("disbelieved_assignment", f"the assignment of pod d/p is rejected: {told}")
    ]


def test_forged_compute_in_assignment_is_finding():
    lent = pod("p", {"c": ("a", 4)})
    honest = inspection([lent])
    lent.metadata.annotations[ASSIGNMENT_ANNOTATION] = encode_assignment(
        Assignment({"c": (Share("a", 4 * GIB, 1000),)})
    )
    difference = "the ledger contains 4 GiB, but the assignment contains 4 GiB with compute 100 %"
    assert findings([lent], held(p={"c": {"a": 4}}), ledger=honest) == [
        ("ledger_differs", f"pod d/p [c] on card a of n: {difference}")
    ]
