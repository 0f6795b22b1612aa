#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: node_owners
short_description: Find who owns the cards of nodes
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Finds nodes whose cards somebody else owns, as NVIDIA's gpu-operator, Kernel Module Management, HAMi, a device
    plugin of the vendor or a DRA driver, by labels, annotations and status of the nodes, ResourceSlices and
    DaemonSets.
  - Nodes with an owner are left alone, which it warns of, unless O(adopt=true).
  - Fails where somebody gives the cards of a node that accelkit shares or is to take over, and where a node of O(nodes)
    has an owner.
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
      - Names of the nodes to judge; all must exist. A node that is named here and has an owner is an error.
      - Without it, all nodes but those labelled C(accelkit.io/share=false).
    type: list
    elements: str
    default: []
  adopt:
    description:
      - Whether to take over nodes whose owners give no cards now, as those whose driver an operator loads.
    type: bool
    default: false
  coexisting:
    description:
      - Names of nodes that are shared whatever others give there, as
        O(accelkit.kubernetes.node_share#module:coexisting).
    type: list
    elements: str
    default: []
  dialect:
    description:
      - Dialect whose resources the node agents serve, as O(accelkit.kubernetes.node_share#module:dialect).
    type: str
    default: native
  dialects:
    description:
      - Dialects whose pods the extender counts. Who gives cards by the resources of one of them is no rival.
    type: list
    elements: str
    default: []
seealso:
  - module: accelkit.kubernetes.node_share
"""

EXAMPLES = r"""
- name: Find the nodes that are left to others
  accelkit.kubernetes.node_owners:
    kubeconfig: ~/.kube/config
  register: owned

- name: Share all other nodes with cards
  accelkit.kubernetes.node_share:
    leave_out: "{{ owned.left_alone }}"
"""

RETURN = r"""
left_alone:
  description: Nodes that are left to their owners, sorted.
  returned: always
  type: list
  elements: str
  sample: [node-3]
judgements:
  description: What becomes of each node that somebody else owns, or has left traces on.
  returned: always
  type: dict
  sample:
    node-3:
      fate: left-alone
      reason: NodeOwned
      evidence: "NVIDIA's gpu-operator holds the cards of its nvidia cards (nvidia.com/gpu: 8)"
      next_action: leave it as it is; or let its owner stop giving the cards
notes:
  description: What could not be read, so that not all owners are known.
  returned: always
  type: list
  elements: str
  sample: []
"""

from contextlib import suppress

from ansible_collections.accelkit.kubernetes.plugins.module_utils._api import api_module, call

# _api reports a missing accelkit before anything of this is called.
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
            msg=f"another device plugin gives the same cards ({listing}), so two would give one card away "
            f"(TwoOwners: {owned[contested[0]].evidence}); {owned[contested[0]].next_action}",
            **result,
        )
    named = [name for name in left_alone if name in module.params["nodes"]]
    if named:
        listing = "; ".join(f"{name}: {owned[name].evidence}" for name in named)
        module.fail_json(
            msg=f"nodes that are to be shared are somebody else's (NodeOwned: {listing}); take them out of "
            f"accelkit_shared_nodes, or: {owned[named[0]].next_action}",
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
    # What our agents serve is another plugin's until the node says that it is ours.
    return await survey_owners(
        api,
        nodes=given["nodes"],
        adopt=given["adopt"],
        coexisting=given["coexisting"],
        counted=counted - {served.resources.memory, served.resources.cards},
    )


if __name__ == "__main__":
    main()
