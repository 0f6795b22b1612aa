#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: node_drain
short_description: Evict the pods of a node that use its cards
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Evicts the pods that use cards of one vendor through the eviction API, and waits until they have ended. Pods of
    lower priority are evicted first. Other pods stay.
  - M(kubernetes.core.k8s_drain) does not consider cards or priorities, and stops at the first eviction that a
    PodDisruptionBudget forbids. This module retries such an eviction until O(timeout).
  - Pods of DaemonSets and static pods stay, because they would be created again at once.
  - Cordon the node first with M(accelkit.kubernetes.node_cordon).
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
      - The module also evicts a pod if the vendor of its cards is unknown.
    type: str
    default: ""
  timeout:
    description:
      - Limit of the drain in seconds.
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
    The evicted pods as C(namespace/name) in the order of eviction, or in check mode the pods that would be evicted.
  returned: success
  type: list
  elements: str
staying:
  description: Pods that use these cards and were not evicted, because they would be created again at once.
  returned: success
  type: list
  elements: str
"""

from contextlib import suppress

from ansible_collections.accelkit.kubernetes.plugins.module_utils._api import api_module, call

# _api reports a missing accelkit before anything of this is called.
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
