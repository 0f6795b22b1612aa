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
  - Fails, with the list of cards, where the shares of pods exceed a card's capacity, where less than O(min_free) is
    left, or where the accounting is otherwise wrong.
  - A finding counts that lasts for O(wait_seconds), but for V(low_free), and without O(allocations).
  - Fails too where a kubelet gave a pod other cards than it was assigned, as the node agents pass it on.
  - All cards are checked before it fails.
extends_documentation_fragment:
  - accelkit.kubernetes._connection
  - accelkit.kubernetes._api
  - accelkit.kubernetes._attributes
  - accelkit.kubernetes._attributes.actiongroup_api
attributes:
  check_mode:
    support: full
    details: It changes nothing.
  diff_mode:
    support: none
    details: It changes nothing.
options:
  nodes:
    description:
      - Names of the nodes to check.
      - Without it, all nodes with cards.
    type: list
    elements: str
    default: []
    aliases: [node]
  min_free:
    description:
      - Memory that every card must have left, as V(4GiB), V(512MiB) or V(0.5GB).
      - Without it, a full card is in order.
    type: str
  allocations:
    description:
      - Whether to compare the assignments of pods with what their kubelets gave.
    type: bool
    default: true
  bypassing:
    description:
      - Whether it is wrong, too, that a pod was bound without the extender since the run began that holds the Lease of
        M(accelkit.kubernetes.run_lease), although its cards are counted by now. Pods that have ended are left out.
    type: bool
    default: false
  kinds:
    description:
      - Kinds of findings and differences that count; others are left out.
      - Without it, all do.
    type: list
    elements: str
    default: []
  wait_seconds:
    description:
      - How long a finding or a difference must last, since what is on its way is none.
    type: float
    default: 10
  namespace:
    description:
      - Where accelkit runs.
    type: str
    default: accelkit
seealso:
  - module: accelkit.kubernetes.memory_info
  - module: accelkit.kubernetes.run_lease
"""

EXAMPLES = r"""
- name: Check that no card is over its capacity
  accelkit.kubernetes.memory_check:
    kubeconfig: ~/.kube/config

- name: Check that each card of two nodes has 4 GiB left
  accelkit.kubernetes.memory_check:
    nodes: [node-1, node-2]
    min_free: 4GiB
"""

RETURN = r"""
findings:
  description: What is wrong, one entry per card and kind; empty if nothing is.
  returned: always
  type: list
  elements: dict
  contains:
    node:
      description: Name of the node.
      type: str
      sample: node-1
    card:
      description: Identity of the card; empty where it is not known.
      type: str
      sample: sim-0
    kind:
      description: >-
        V(over_capacity), V(low_free), V(shared_whole_card), V(unknown_card), V(unassigned_pod)
        or V(unknown_inventory).
      type: str
      sample: low_free
    message:
      description: One sentence.
      type: str
      sample: card sim-0 of node-1 has 2 GiB left, less than 4 GiB
    pods:
      description: Namespaces and names of the pods that hold a part of the card.
      type: list
      elements: str
      sample: [default/train]
    capacity_bytes:
      description: What the card has.
      type: int
      sample: 17179869184
    used_bytes:
      description: What pods hold of it.
      type: int
      sample: 15032385536
    free_bytes:
      description: What is left; negative where the card is over its capacity.
      type: int
      sample: 2147483648
differences:
  description: Where the assignments of pods and what their kubelets gave differ; empty if they agree.
  returned: when O(allocations=true)
  type: list
  elements: dict
  contains:
    node:
      description: Name of the node.
      type: str
      sample: node-1
    card:
      description: Identity of the card; empty where several are meant.
      type: str
      sample: sim-0
    pod:
      description: Namespace and name of the pod; empty where none is meant.
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
      description: One sentence.
      type: str
      sample: pod default/train [main] is assigned 4 GiB of sim-0; its kubelet gave 4 devices of sim-1
notes:
  description: What could not be compared.
  returned: when O(allocations=true)
  type: list
  elements: str
  sample: ["processes on the cards of node-1 were not looked at"]
totals:
  description: Sums over the cards that were checked.
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

# Of these the pods are named, and what to do with them.
NAMED = ("over_capacity", "shared_whole_card")
NEXT_STEPS = {
    "over_capacity": "Delete pods of a card over its capacity until the others fit: their controllers create them anew",
    "unassigned_pod": (
        "A pod whose cards are not known counts for all of its node: look at the node agent there, or delete the pod"
    ),
    "bound_past_extender": (
        "A pod that was bound without the extender may lie on a card that others need: delete it, so that its "
        "controller creates it anew and the extender places it, or accept its place and run the playbook again"
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
        # What is given wrong is reported before anything is waited for.
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
