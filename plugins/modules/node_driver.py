#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: node_driver
short_description: Replace the driver on a node, and wait until it works
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - On one node, deletes the driver pods with an image that is not in O(images), because their DaemonSets do not replace
    these pods. Waits until the new pods are ready.
  - Then waits until the node agent reports the required driver version for all cards, no card is unhealthy, and the
    stage C(driver-check) has not failed since O(began_at).
extends_documentation_fragment:
  - accelkit.kubernetes._connection
  - accelkit.kubernetes._api
  - accelkit.kubernetes._attributes
  - accelkit.kubernetes._attributes.actiongroup_api
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
options:
  name:
    description:
      - Name of the node.
    type: str
    required: true
  versions:
    description:
      - Required driver version for each vendor. An empty value accepts any version.
    type: dict
    default: {}
  images:
    description:
      - Images that the driver pods on the node must have. Leave it empty if the drivers on the node do not run in pods.
    type: list
    elements: str
    default: []
  namespace:
    description:
      - Namespace of the driver pods.
    type: str
    default: accelkit
  began_at:
    description:
      - Start time of the upgrade, as returned in RV(accelkit.kubernetes.node_cordon#module:began_at).
    type: float
    default: 0.0
  timeout:
    description:
      - Maximum time to wait, in seconds.
    type: int
    default: 1800
"""

EXAMPLES = r"""
- name: Replace the driver of the node
  accelkit.kubernetes.node_driver:
    name: worker-1
    versions: {nvidia: 550.54.14}
    images: [registry.example.org/nvidia:550.54.14-5.14.0-427.13.1.el9_4.x86_64]
"""

RETURN = r"""
deleted:
  description: The deleted pods. In check mode, the pods that would be deleted.
  returned: success
  type: list
  elements: str
"""

from contextlib import suppress

from ansible_collections.accelkit.kubernetes.plugins.module_utils._api import api_module, call

# If accelkit is missing, _api reports this before the module uses these names.
with suppress(ImportError):
    from accelkit.enablement.drivers.cluster import COMPONENT
    from accelkit.enablement.drivers.upgrading.replacing import DriverPods, wait_for_driver
    from accelkit.model.keys import COMPONENT_LABEL


def main():
    module = api_module(
        name={"type": "str", "required": True},
        versions={"type": "dict", "default": {}},
        images={"type": "list", "elements": "str", "default": []},
        namespace={"type": "str", "default": "accelkit"},
        began_at={"type": "float", "default": 0.0},
        timeout={"type": "int", "default": 1800},
    )
    deleted = call(module, lambda api: _wait(api, module))
    module.exit_json(changed=bool(deleted), deleted=deleted)


async def _wait(api, module):
    given = module.params
    desired = DriverPods(given["namespace"], f"{COMPONENT_LABEL}={COMPONENT}", tuple(given["images"]))
    return await wait_for_driver(
        api,
        given["name"],
        {vendor: str(version or "") for vendor, version in given["versions"].items()},
        seconds=given["timeout"],
        desired=desired,
        began_at=given["began_at"],
        check=module.check_mode,
    )


if __name__ == "__main__":
    main()
