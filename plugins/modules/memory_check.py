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
  - All cards are checked before it fails.
extends_documentation_fragment:
  - accelkit.kubernetes._api
  - accelkit.kubernetes._attributes
  - accelkit.kubernetes._attributes.actiongroup_accelkit
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
  description: What is wrong, one entry per card and kind; empty where all is well.
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
totals:
  description: Sums over the cards that were checked.
  returned: always
  type: dict
  sample: {cards: 8, capacity_bytes: 137438953472, used_bytes: 8589934592, free_bytes: 128849018880}
"""

from ansible_collections.accelkit.kubernetes.plugins.module_utils._api import api_module, call
from ansible_collections.accelkit.kubernetes.plugins.module_utils._inspection import checked


def main():
    module = api_module(
        nodes={"type": "list", "elements": "str", "default": [], "aliases": ["node"]}, min_free={"type": "str"}
    )
    findings, totals = call(module, lambda api: checked(api, module.params["nodes"], module.params["min_free"]))
    if findings:
        cards = len({(finding["node"], finding["card"]) for finding in findings})
        listing = "; ".join(finding["message"] for finding in findings)
        subject = "1 card is" if cards == 1 else f"{cards} cards are"
        module.fail_json(msg=f"{subject} not in order: {listing}", findings=findings, totals=totals)
    module.exit_json(changed=False, findings=[], totals=totals)


if __name__ == "__main__":
    main()
