#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: node_owners
short_description: Find the owners of cards in nodes
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Finds nodes with cards that have another owner, for example NVIDIA's gpu-operator, Kernel Module Management, HAMi,
    the vendor's device plugin or a DRA driver.
  - The module reads the labels, annotations and status of the nodes, ResourceSlices and DaemonSets.
  - Unless O(adopt=true), it warns about nodes with another owner, and returns them so that they can be excluded.
  - It fails if another owner advertises the cards of a node that accelkit shares or must adopt, or if a node in
    O(nodes) has another owner.
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
      - Names of the nodes to examine. All of them must exist. The module fails if one of these nodes has another owner.
      - By default, the module examines all nodes except nodes with the label C(accelkit.io/share=false).
    type: list
    elements: str
    default: []
  adopt:
    description:
      - Whether to adopt nodes if their owners do not currently advertise cards, for example nodes on which an operator
        loads the driver.
    type: bool
    default: false
  coexisting:
    description:
      - Names of nodes that are shared regardless of the resources that other owners advertise on them, as in
        O(accelkit.kubernetes.node_share#module:coexisting).
    type: list
    elements: str
    default: []
  dialect:
    description:
      - Dialect whose resources the node agents serve, as in O(accelkit.kubernetes.node_share#module:dialect).
    type: str
    default: native
  dialects:
    description:
      - Dialects that are enabled in the extender. An owner that advertises cards as resources of one of these dialects
        is not a conflict.
    type: list
    elements: str
    default: []
seealso:
  - module: accelkit.kubernetes.node_share
"""

EXAMPLES = r"""
- name: Find the nodes with other owners
  accelkit.kubernetes.node_owners:
    kubeconfig: ~/.kube/config
  register: owned

- name: Share all other nodes with cards
  accelkit.kubernetes.node_share:
    leave_out: "{{ owned.left_alone }}"
"""

RETURN = r"""
left_alone:
  description: Sorted names of the nodes to exclude, because they have another owner.
  returned: always
  type: list
  elements: str
  sample: [node-3]
judgements:
  description: By node name, the decision about each node that has another owner, or metadata of a previous owner.
  returned: always
  type: dict
  sample:
    node-3:
      fate: left-alone
      reason: NodeOwned
      evidence: "NVIDIA's gpu-operator holds the cards for vendor nvidia (nvidia.com/gpu: 8)"
      next_action: leave it as it is; or let its owner stop giving the cards
notes:
  description: Objects that could not be read. If the list is not empty, the list of owners may be incomplete.
  returned: always
  type: list
  elements: str
  sample: []
"""

from contextlib import suppress

from ansible_collections.accelkit.kubernetes.plugins.module_utils._api import api_module, call

# If accelkit is missing, _api reports this before the module uses these names.
with suppress(ImportError):
    from accelkit.enablement.ownership.fate import Fate
    from accelkit.enablement.ownership.survey import survey_owners
    from accelkit.vendors.dialects import load_dialects, load_served_dialect


def main():
    module = api_module(
        nodes={"type": "list", "elements": "str", "default": []},
        adopt={"type": "bool", "default": False},
        coexisting={"type": "list", "elements": "str", "default": []},
        dialect={"type": "str", "default": "native"},
        dialects={"type": "list", "elements": "str", "default": []},
    )
    survey = call(module, lambda api: _survey(api, module.params))
    owned = {name: each for name, each in survey.judgements.items() if each.reason}
    contested = [name for name, each in owned.items() if each.fate is Fate.CONTESTED]
    left_alone = [name for name, each in owned.items() if each.fate is Fate.LEFT_ALONE]
    result = {
        "left_alone": left_alone,
        "judgements": {name: _describe(each) for name, each in owned.items()},
        "notes": list(survey.notes),
    }
    for note in survey.notes:
        module.warn(note)
    if contested:
        listing = "; ".join(f"{name}: {', '.join(owned[name].gives) or owned[name].evidence}" for name in contested)
        module.fail_json(
            msg=f"another device plugin offers the same cards ({listing}), so one card could be allocated twice "
            f"(TwoOwners: {owned[contested[0]].evidence}); {owned[contested[0]].next_action}",
            **result,
        )
    named = [name for name in left_alone if name in module.params["nodes"]]
    if named:
        listing = "; ".join(f"{name}: {owned[name].evidence}" for name in named)
        module.fail_json(
            msg=f"nodes to share have another owner (NodeOwned: {listing}); remove them from accelkit_shared_nodes, "
            f"or: {owned[named[0]].next_action}",
            **result,
        )
    for name in left_alone:
        module.warn(f"node {name} is left alone (NodeOwned): {owned[name].evidence}; {owned[name].next_action}")
    module.exit_json(changed=False, **result)


def _describe(judgement):
    return {
        "fate": str(judgement.fate),
        "reason": judgement.reason,
        "evidence": judgement.evidence,
        "next_action": judgement.next_action,
    }


async def _survey(api, given):
    served = load_served_dialect(given["dialect"])
    counted = {name for each in load_dialects(given["dialects"]) for name in each.resources.requestable}
    # Until the node is shared by accelkit, a resource that accelkit's agents can serve belongs to another plugin.
    return await survey_owners(
        api,
        nodes=given["nodes"],
        adopt=given["adopt"],
        coexisting=given["coexisting"],
        counted=counted - {served.resources.memory, served.resources.cards},
    )


if __name__ == "__main__":
    main()
