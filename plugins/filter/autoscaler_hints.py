# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

DOCUMENTATION = r"""
name: autoscaler_hints
short_description: Describe nodes with cards for a cluster autoscaler
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Returns hints that describe the nodes in a group. An autoscaler uses these hints to add the first node to the group
    when pods request shares of cards.
  - The filter does not change any resources. Use its output with the modules for your cloud provider.
options:
  _input:
    description:
      - The group, with C(capacity), C(labels) and C(taints).
      - Keys of C(capacity) are C(cpu), C(memory_mib), C(cards), C(card_memory), C(vendor_cards) and C(vendor_resource).
        C(card_memory) is the total for all cards in a node, in units of C(accelkit.io/memory).
    type: dict
    required: true
  autoscaler:
    description:
      - V(aws) returns the tags of an Auto Scaling group, and V(azure) returns the tags of a scale set.
      - V(gce) returns the variables for the environment of an instance template.
      - V(cluster-api) and V(machine-api) return annotations.
    type: str
    choices: [aws, azure, gce, cluster-api, machine-api]
    required: true
"""

EXAMPLES = r"""
- name: Print the tags of an Auto Scaling group
  ansible.builtin.debug:
    msg: "{{ group | accelkit.kubernetes.autoscaler_hints('aws') }}"
  vars:
    group:
      capacity: {cards: 4, card_memory: 192}
      labels: {accelkit.io/share: "true"}
"""

RETURN = r"""
_value:
  description: Names and values of the tags, annotations or variables.
  type: dict
  sample: {"k8s.io/cluster-autoscaler/node-template/resources/accelkit.io/cards": "4"}
"""

import json

from ansible.errors import AnsibleFilterError
from ansible_collections.accelkit.kubernetes.plugins.module_utils._package import find_problem

IMPORT_ERROR = None
try:
    from accelkit.enablement.openshift.node_group import Autoscaler, read_node_group, write_hints
    from accelkit.errors import AccelkitError
except ImportError as exc:
    IMPORT_ERROR = exc


def autoscaler_hints(group, autoscaler):
    """Return the names and values of the hints for a group of nodes."""
    if problem := find_problem(IMPORT_ERROR):
        raise AnsibleFilterError(problem)
    if autoscaler not in list(Autoscaler):
        raise AnsibleFilterError(f"{autoscaler} is not a supported autoscaler; choose one of {', '.join(Autoscaler)}")
    try:
        # A round trip through JSON converts the types of Ansible to plain types.
        return write_hints(read_node_group(json.loads(json.dumps(group))), Autoscaler(str(autoscaler)))
    except AccelkitError as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    def filters(self):
        return {"autoscaler_hints": autoscaler_hints}
