#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: memory_info
short_description: Gather information about the cards in a cluster and the pods that use them
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Reads nodes and pods from the API server. For each card in each node, returns the capacity, the used memory and the
    shares of containers.
  - The module returns the same data as C(accelkit inspect). The extender does not need to run.
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
      - Names of the nodes to return.
      - By default, the module returns all nodes with cards.
    type: list
    elements: str
    default: []
    aliases: [node]
seealso:
  - module: accelkit.kubernetes.memory_check
"""

EXAMPLES = r"""
- name: Read all cards
  accelkit.kubernetes.memory_info:
    kubeconfig: ~/.kube/config
  register: memory

- name: Print the free memory of each node
  ansible.builtin.debug:
    msg: "{{ item.name }}: {{ item.totals.free_bytes | human_readable }} free"
  loop: "{{ memory.inspection.nodes }}"
  loop_control:
    label: "{{ item.name }}"
"""

RETURN = r"""
inspection:
  description: The cards in the cluster, in the format of C(accelkit inspect -o json).
  returned: success
  type: dict
  contains:
    version:
      description: Version of the format.
      type: int
      sample: 1
    unit_bytes:
      description: Size of one unit of C(accelkit.io/memory), in bytes. The value is null if no node is shared.
      type: int
      sample: 1073741824
    nodes:
      description: The nodes, with one entry for each node.
      type: list
      elements: dict
      contains:
        name:
          description: Name of the node.
          type: str
          sample: node-1
        state:
          description: State of the node, V(shared), V(none), or V(unknown) if the inventory of the node cannot be used.
          type: str
          sample: shared
        problem:
          description: Reason for the state V(unknown). The value is empty for other states.
          type: str
          sample: ''
        cards:
          description: Cards in the node, each with its identity, model, amounts in bytes, health and shares.
          type: list
          elements: dict
        unassigned:
          description: Pods that use cards in the node, but do not have an assignment that identifies these cards.
          type: list
          elements: dict
        totals:
          description: Totals for the cards in the node.
          type: dict
    totals:
      description: Totals for all returned cards.
      type: dict
      sample: {cards: 8, capacity_bytes: 137438953472, used_bytes: 8589934592, free_bytes: 128849018880}
"""

from ansible_collections.accelkit.kubernetes.plugins.module_utils._api import api_module, call
from ansible_collections.accelkit.kubernetes.plugins.module_utils._inspection import inspected


def main():
    module = api_module(nodes={"type": "list", "elements": "str", "default": [], "aliases": ["node"]})
    _inspection, builtins = call(module, lambda api: inspected(api, module.params["nodes"]))
    module.exit_json(changed=False, inspection=builtins)


if __name__ == "__main__":
    main()
