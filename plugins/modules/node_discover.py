#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: node_discover
short_description: Discover the cards in nodes that are not shared yet
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Runs C(accelkit discover) in a pod on each node without the label C(accelkit.io/share). The pod detects the cards in
    the node, and checks whether the node fulfills the requirements for sharing its cards.
  - Also examines nodes with the label C(accelkit.io/share=true) if their node agent has not published their cards yet.
    The module warns about unfulfilled requirements on these nodes.
  - If O(driver_root), O(runtime_class), O(cdi_devices) or O(privileged) is set, runs a second pod on nodes with cards.
    This pod has the same access to the driver as node agents.
  - The pods can read the devices of the node, but do not have access to the API server. The module deletes the pods
    after use.
  - In check mode, the module does not start pods, and returns no nodes.
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
      - Names of the nodes to examine, which may have the label C(accelkit.io/share=false). All of them must exist.
      - By default, the module examines all nodes without this label.
    type: list
    elements: str
    default: []
  leave_out:
    description:
      - Names of the nodes to exclude because they have another owner, as returned by
        M(accelkit.kubernetes.node_owners).
    type: list
    elements: str
    default: []
  host_root:
    description:
      - Folder on the nodes that contains C(sys), C(etc), C(dev) and C(usr).
    type: str
    default: /
  driver_root:
    description:
      - Folder on the nodes that contains the vendors' drivers, as for node agents.
    type: str
    default: /
  runtime_class:
    description:
      - RuntimeClass of the second pods, as for node agents. If empty, no RuntimeClass is set.
    type: str
    default: ""
  cdi_devices:
    description:
      - CDI names of the devices for the second pods, as for node agents.
    type: list
    elements: str
    default: []
  privileged:
    description:
      - Whether the second pods are privileged, as for node agents.
    type: bool
    default: false
  namespace:
    description:
      - Namespace of the pods. It must exist.
    type: str
    default: accelkit
  image:
    description:
      - The accelkit image.
    type: str
    required: true
  image_pull_secrets:
    description:
      - Names of Secrets that contain credentials for the registry.
    type: list
    elements: str
    default: []
  timeout:
    description:
      - Timeout for each pod, in seconds.
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
  description: Sorted names of the nodes with cards.
  returned: success
  type: list
  elements: str
  sample: [worker-1]
looked_at:
  description: Sorted names of the examined nodes.
  returned: success
  type: list
  elements: str
  sample: [worker-1, worker-2]
missing:
  description: >-
    Unfulfilled requirements for sharing the cards, by node name. The dictionary contains only nodes without the label
    C(accelkit.io/share=true).
  returned: success
  type: dict
  sample: {worker-2: ['card 0000:01:00.0 (nvidia) is without a driver, but requires nvidia']}
problems:
  description: Reason why the cards of each node are unknown, by node name.
  returned: success
  type: dict
  sample: {}
"""

from contextlib import suppress

from ansible_collections.accelkit.kubernetes.plugins.module_utils._api import api_module, call

# If accelkit is missing, _api reports this before the module uses these names.
with suppress(ImportError):
    from accelkit.install.node_discovery import DiscoveryPod, DriverReach, Findings, find_cards
    from accelkit.install.shared_nodes import list_unexamined


def main():
    module = api_module(
        namespace={"type": "str", "default": "accelkit"},
        image={"type": "str", "required": True},
        # The option contains only names of Secrets. If no_log were not set, Ansible would warn that it may contain
        # secrets.
        image_pull_secrets={"type": "list", "elements": "str", "default": [], "no_log": False},
        nodes={"type": "list", "elements": "str", "default": []},
        leave_out={"type": "list", "elements": "str", "default": []},
        host_root={"type": "str", "default": "/"},
        driver_root={"type": "str", "default": "/"},
        runtime_class={"type": "str", "default": ""},
        cdi_devices={"type": "list", "elements": "str", "default": []},
        privileged={"type": "bool", "default": False},
        timeout={"type": "int", "default": 120},
    )
    labelled, found = call(module, lambda api: _discover(api, module))
    for node, problem in sorted(found.problems.items()):
        module.warn(f"the cards of node {node} are unknown: {problem}")
    # An administrator decided to share these nodes, so unmet requirements cause only warnings.
    for node in sorted(found.counts):
        lacking = found.missing.get(node, []) if labelled[node] else []
        if warnings := [*lacking, *found.library_problems.get(node, [])]:
            module.warn(f"node {node}: {'; '.join(warnings)}")
    module.exit_json(
        changed=False,
        nodes=sorted(node for node, count in found.counts.items() if count),
        looked_at=sorted(labelled),
        missing={node: lacking for node, lacking in found.missing.items() if not labelled[node]},
        problems=found.problems,
    )


async def _discover(api, module):
    given = module.params
    if module.check_mode:
        return {}, Findings()
    labelled = await list_unexamined(api, given["nodes"], given["leave_out"])
    reach = DriverReach(
        given["driver_root"], given["runtime_class"], tuple(given["cdi_devices"]), privileged=given["privileged"]
    )
    pod = DiscoveryPod(
        given["namespace"], given["image"], tuple(given["image_pull_secrets"]), given["host_root"], reach
    )
    return labelled, await find_cards(api, list(labelled), pod, seconds=given["timeout"])


if __name__ == "__main__":
    main()
