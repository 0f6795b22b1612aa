#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: node_discover
short_description: Find the cards of nodes that nobody has labelled
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Runs C(accelkit discover) in a pod on each node of which nothing says whether it has cards, neither a label of Node
    Feature Discovery or of a vendor's tools, nor an inventory, nor C(accelkit.io/share).
  - The pods see the node's devices, read nothing of the cluster, and are deleted.
  - In check mode no pod is started, and no node is found.
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
  namespace:
    description:
      - Namespace of the pods, which must exist.
    type: str
    default: accelkit
  image:
    description:
      - Image of accelkit.
    type: str
    required: true
  image_pull_secrets:
    description:
      - Names of Secrets for the registry.
    type: list
    elements: str
    default: []
  simulated:
    description:
      - Whether simulated cards count, which C(/etc/accelkit/simulated-cards.json) lists.
    type: bool
    default: false
  timeout:
    description:
      - How long, in seconds, each pod may take.
    type: int
    default: 120
"""

EXAMPLES = r"""
- name: Find nodes with cards
  accelkit.kubernetes.node_discover:
    image: registry.example.org/accelkit/accelkit:0.1.0
  register: discovered
"""

RETURN = r"""
nodes:
  description: The nodes with cards, sorted.
  returned: success
  type: list
  elements: str
  sample: [worker-1]
looked_at:
  description: The nodes that were looked at, sorted.
  returned: success
  type: list
  elements: str
  sample: [worker-1, worker-2]
problems:
  description: By node, why it is not known whether it has cards.
  returned: success
  type: dict
  sample: {}
"""

from contextlib import suppress

from ansible_collections.accelkit.kubernetes.plugins.module_utils._api import api_module, call

# _api reports a missing accelkit before anything of this is called.
with suppress(ImportError):
    from accelkit.install.node_discovery import DiscoveryPod, find_cards
    from accelkit.install.sharing import list_unlabelled


def main():
    module = api_module(
        namespace={"type": "str", "default": "accelkit"},
        image={"type": "str", "required": True},
        # Names of Secrets, which Ansible takes for secrets unless it is told.
        image_pull_secrets={"type": "list", "elements": "str", "default": [], "no_log": False},
        simulated={"type": "bool", "default": False},
        timeout={"type": "int", "default": 120},
    )
    nodes, counts, problems = call(module, lambda api: _discover(api, module))
    for node, problem in sorted(problems.items()):
        module.warn(f"whether node {node} has cards is not known: {problem}")
    found = sorted(node for node, count in counts.items() if count)
    module.exit_json(changed=False, nodes=found, looked_at=nodes, problems=problems)


async def _discover(api, module):
    given = module.params
    if module.check_mode:
        return [], {}, {}
    nodes = await list_unlabelled(api)
    pod = DiscoveryPod(given["namespace"], given["image"], tuple(given["image_pull_secrets"]), given["simulated"])
    return nodes, *await find_cards(api, nodes, pod, seconds=given["timeout"])


if __name__ == "__main__":
    main()
