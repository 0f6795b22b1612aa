#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: node_drain
short_description: Evict the pods that use the cards of a node
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Uses the eviction API to evict the pods that use the cards of one vendor, and waits until these pods have
    terminated. Pods with a lower priority are evicted first. Other pods are not evicted.
  - M(kubernetes.core.k8s_drain) does not consider cards or priorities, and stops at the first eviction that a
    PodDisruptionBudget does not allow. This module retries such an eviction until O(timeout) expires.
  - DaemonSet pods and static pods are not evicted, because they would be created again immediately.
  - Cordon the node with M(accelkit.kubernetes.node_cordon) before you use this module.
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
  vendor:
    description:
      - Vendor of the cards. By default, the module evicts the pods that use cards of any vendor.
      - The module also evicts pods if the vendor of their cards is unknown.
    type: str
    default: ""
  timeout:
    description:
      - Timeout for the drain, in seconds.
    type: int
    default: 300
"""

EXAMPLES = r"""
- name: Evict the pods that use NVIDIA cards
  accelkit.kubernetes.node_drain:
    name: worker-1
    vendor: nvidia
    timeout: 600
"""

RETURN = r"""
evicted:
  description: >-
    The evicted pods, as C(namespace/name) in the order of their eviction. In check mode, the pods that would be
    evicted.
  returned: success
  type: list
  elements: str
staying:
  description: Pods that use these cards but were not evicted, because they would be created again immediately.
  returned: success
  type: list
  elements: str
"""

from contextlib import suppress

from ansible_collections.accelkit.kubernetes.plugins.module_utils._api import api_module, call

# If accelkit is missing, _api reports this before the module uses these names.
with suppress(ImportError):
    from accelkit.enablement.drivers.upgrading.drain import drain_cards


def main():
    module = api_module(
        name={"type": "str", "required": True},
        vendor={"type": "str", "default": ""},
        timeout={"type": "int", "default": 300},
    )
    given = module.params
    drained = call(
        module,
        lambda api: drain_cards(api, given["name"], given["vendor"], seconds=given["timeout"], check=module.check_mode),
    )
    module.exit_json(changed=bool(drained.evicted), evicted=list(drained.evicted), staying=list(drained.staying))


if __name__ == "__main__":
    main()
