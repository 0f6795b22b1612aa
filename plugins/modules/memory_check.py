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
  wait_seconds:
    description:
      - How long such a difference must last, since what is on its way is none.
    type: float
    default: 10
  namespace:
    description:
      - Where accelkit runs.
    type: str
    default: accelkit
seealso:
  - module: accelkit.kubernetes.memory_info
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
        V(disbelieved_assignment).
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
from ansible_collections.accelkit.kubernetes.plugins.module_utils._inspection import checked, compared


def main():
    module = api_module(
        nodes={"type": "list", "elements": "str", "default": [], "aliases": ["node"]},
        min_free={"type": "str"},
        allocations={"type": "bool", "default": True},
        wait_seconds={"type": "float", "default": 10},
        namespace={"type": "str", "default": "accelkit"},
    )
    given = module.params
    findings, totals = call(module, lambda api: checked(api, given["nodes"], given["min_free"]))
    result = {"findings": findings, "totals": totals}
    if given["allocations"]:
        result["differences"], result["notes"] = call(
            module, lambda api: compared(api, given["nodes"], given["namespace"], given["wait_seconds"])
        )
    wrong = findings + result.get("differences", [])
    if wrong:
        listing = "; ".join(each["message"] for each in wrong)
        module.fail_json(msg=f"{_subject(findings)} inconsistent: {listing}", **result)
    module.exit_json(changed=False, **result)


def _subject(findings):
    cards = len({(finding["node"], finding["card"]) for finding in findings})
    if not cards:
        return "the observed allocation is"
    return "1 card is" if cards == 1 else f"{cards} cards are"


if __name__ == "__main__":
    main()
