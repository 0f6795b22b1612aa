#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: memory_check
short_description: Check the accounting of card memory
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Fails with a list of cards if the shares of pods exceed the capacity of a card, if a card has less free memory than
    O(min_free), or if the accounting contains another error.
  - The module reports a finding only if it persists for O(wait_seconds). It reports V(low_free) immediately. With
    O(allocations=false), it reports all findings immediately.
  - Fails if the node agents report that a kubelet allocated different cards to a pod than the cards in its assignment.
  - The module checks all cards before it fails.
extends_documentation_fragment:
  - accelkit.kubernetes._connection
  - accelkit.kubernetes._api
  - accelkit.kubernetes._attributes
  - accelkit.kubernetes._attributes.actiongroup_api
attributes:
  check_mode:
    support: full
    details: The module does not change anything.
  diff_mode:
    support: none
    details: The module does not change anything.
options:
  nodes:
    description:
      - Names of the nodes to check.
      - By default, the module checks all nodes with cards.
    type: list
    elements: str
    default: []
    aliases: [node]
  min_free:
    description:
      - Memory that must be free on each card, for example V(4GiB), V(512MiB) or V(0.5GB).
      - By default, a full card is not an error.
    type: str
  allocations:
    description:
      - Whether to compare the assignments of pods with the allocations that their kubelets made.
    type: bool
    default: true
  bypassing:
    description:
      - Whether to report pods that were bound without the extender since the start of the run that holds the Lease of
        M(accelkit.kubernetes.run_lease), even if the extender has added their cards to the ledger in the meantime. Pods
        that have finished are excluded.
    type: bool
    default: false
  kinds:
    description:
      - Kinds of findings and differences that cause a failure. The module ignores other kinds.
      - By default, all kinds cause a failure.
    type: list
    elements: str
    default: []
  wait_seconds:
    description:
      - Minimum duration of a reported finding or difference, in seconds. If a finding or difference does not last this
        long, it is treated as a change in progress.
    type: float
    default: 10
  namespace:
    description:
      - Namespace of accelkit.
    type: str
    default: accelkit
seealso:
  - module: accelkit.kubernetes.memory_info
  - module: accelkit.kubernetes.run_lease
"""

EXAMPLES = r"""
- name: Check that no card exceeds its capacity
  accelkit.kubernetes.memory_check:
    kubeconfig: ~/.kube/config

- name: Check that each card of two nodes has 4 GiB free
  accelkit.kubernetes.memory_check:
    nodes: [node-1, node-2]
    min_free: 4GiB
"""

RETURN = r"""
findings:
  description: The errors, with one entry for each card and kind. The list is empty if there are no errors.
  returned: always
  type: list
  elements: dict
  contains:
    node:
      description: Name of the node.
      type: str
      sample: node-1
    card:
      description: Identity of the card. The value is empty if the card is unknown.
      type: str
      sample: sim-0
    kind:
      description: >-
        V(over_capacity), V(low_free), V(shared_whole_card), V(unknown_card), V(unassigned_pod)
        or V(unknown_inventory).
      type: str
      sample: low_free
    message:
      description: Description of the problem, as one sentence.
      type: str
      sample: card sim-0 of node-1 has 2 GiB free, less than 4 GiB
    pods:
      description: Namespaces and names of the pods that use a share of the card.
      type: list
      elements: str
      sample: [default/train]
    capacity_bytes:
      description: Capacity of the card, in bytes.
      type: int
      sample: 17179869184
    used_bytes:
      description: Memory that is allocated to pods, in bytes.
      type: int
      sample: 15032385536
    free_bytes:
      description: Free memory in bytes. The value is negative if the shares exceed the capacity of the card.
      type: int
      sample: 2147483648
differences:
  description: >-
    Differences between the assignments of pods and the allocations that their kubelets made. The list is empty if there
    are no differences.
  returned: if O(allocations=true) or O(bypassing=true)
  type: list
  elements: dict
  contains:
    node:
      description: Name of the node.
      type: str
      sample: node-1
    card:
      description: Identity of the card. The value is empty if the difference concerns several cards.
      type: str
      sample: sim-0
    pod:
      description: Namespace and name of the pod. The value is empty if the difference does not concern a pod.
      type: str
      sample: default/train
    kind:
      description: >-
        V(kubelet_differs), V(not_allocated), V(not_published), V(unreadable_allocations), V(unknown_pod),
        V(unhealthy_card_in_use), V(constraint_broken), V(strange_process), V(topology_policy) or
        V(disbelieved_assignment); with O(bypassing), also V(bound_past_extender).
      type: str
      sample: kubelet_differs
    message:
      description: Description of the problem, as one sentence.
      type: str
      sample: pod default/train [main] is assigned 4 GiB of sim-0, but its kubelet allocated 4 devices of sim-1
notes:
  description: Comparisons that the module could not perform, with the reasons.
  returned: if O(allocations=true)
  type: list
  elements: str
  sample: ["processes on the cards of node-1 were not looked at"]
totals:
  description: Totals for the checked cards.
  returned: always
  type: dict
  sample: {cards: 8, capacity_bytes: 137438953472, used_bytes: 8589934592, free_bytes: 128849018880}
"""

from ansible_collections.accelkit.kubernetes.plugins.module_utils._api import api_module, call
from ansible_collections.accelkit.kubernetes.plugins.module_utils._inspection import (
    bypassing,
    checked,
    compared,
)

# For findings of these kinds, the message lists the pods.
NAMED = ("over_capacity", "shared_whole_card")
NEXT_STEPS = {
    "over_capacity": (
        "Delete pods of a card over its capacity until the other pods fit: their controllers create them again"
    ),
    "unassigned_pod": (
        "A pod whose cards are unknown counts on every card of its node: check the node agent there, or delete the pod"
    ),
    "bound_past_extender": (
        "A pod that was bound without the extender may use a card that other pods need: delete it, so that its "
        "controller creates it again and the extender places it, or accept its placement and run the playbook again"
    ),
}


def main():
    module = api_module(
        nodes={"type": "list", "elements": "str", "default": [], "aliases": ["node"]},
        min_free={"type": "str"},
        allocations={"type": "bool", "default": True},
        bypassing={"type": "bool", "default": False},
        kinds={"type": "list", "elements": "str", "default": []},
        wait_seconds={"type": "float", "default": 10},
        namespace={"type": "str", "default": "accelkit"},
    )
    given = module.params
    if given["nodes"] or given["min_free"]:
        # Report invalid arguments before the wait.
        call(module, lambda api: checked(api, given["nodes"], given["min_free"]))
    compare = (
        call(
            module,
            lambda api: compared(api, given["nodes"], given["namespace"], given["wait_seconds"]),
        )
        if given["allocations"]
        else None
    )
    findings, totals = call(module, lambda api: checked(api, given["nodes"], given["min_free"]))
    differences, notes, lasting = compare or ([], [], None)
    if given["bypassing"]:
        differences = differences + call(module, bypassing)
    findings = [each for each in findings if _counts(each, given["kinds"]) and _lasts(each, lasting)]
    differences = [each for each in differences if _counts(each, given["kinds"])]
    result = {"findings": findings, "totals": totals}
    if compare is not None:
        result["notes"] = notes
    if compare is not None or given["bypassing"]:
        result["differences"] = differences
    if findings or differences:
        listing = "; ".join(map(_describe, findings + differences))
        steps = [step for kind, step in NEXT_STEPS.items() if kind in {each["kind"] for each in findings + differences}]
        module.fail_json(
            msg=". ".join([f"{_subject(findings, differences)} inconsistent: {listing}", *steps]), **result
        )
    module.exit_json(changed=False, **result)


def _counts(found, kinds):
    return not kinds or found["kind"] in kinds


def _lasts(found, lasting):
    return lasting is None or found["kind"] == "low_free" or (found["node"], found["card"], found["kind"]) in lasting


def _describe(found):
    held = f", held by {', '.join(found['pods'])}" if found["kind"] in NAMED and found.get("pods") else ""
    return f"{found['message']}{held}"


def _subject(findings, differences):
    cards = len({(finding["node"], finding["card"]) for finding in findings})
    if not cards:
        past = {each["kind"] for each in differences} == {"bound_past_extender"}
        return "the scheduling is" if past else "the observed allocation is"
    return "1 card is" if cards == 1 else f"{cards} cards are"


if __name__ == "__main__":
    main()
