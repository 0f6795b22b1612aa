#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: gcushare_adopt
short_description: Adopt an installation of Enflame GCUShare
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Uninstalls the Helm releases of GCUShare's charts. The module does not require Helm, and does not run hooks.
  - Replaces the node label C(enflame.com/gcushare=true) with C(accelkit.io/share=true).
  - Reads the memory unit of GCUShare's pods from C(memoryUnit) in the releases. Records the unit on the nodes, so that
    later runs can read the unit.
  - The module does not change running pods. To adopt GCUShare's entry in the configuration of kube-scheduler, use
    M(accelkit.kubernetes.scheduler_config).
extends_documentation_fragment:
  - accelkit.kubernetes._connection
  - accelkit.kubernetes._api
  - accelkit.kubernetes._attributes
  - accelkit.kubernetes._attributes.actiongroup_api
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
"""

EXAMPLES = r"""
- name: Adopt GCUShare
  accelkit.kubernetes.gcushare_adopt:
    kubeconfig: ~/.kube/config
"""

RETURN = r"""
releases:
  description: The uninstalled Helm releases, as C(namespace/name).
  returned: success
  type: list
  elements: str
  sample: [kube-system/gcushare-device-plugin]
nodes:
  description: Names of the nodes on which GCUShare shared the cards.
  returned: success
  type: list
  elements: str
  sample: [node-1]
former_unit:
  description: The memory unit of GCUShare's pods. The value is empty if the unit was not found.
  returned: success
  type: str
  sample: 0.1GiB
"""

from contextlib import suppress

from ansible_collections.accelkit.kubernetes.plugins.module_utils._api import api_module, call

# If accelkit is missing, _api reports this before the module uses these names.
with suppress(ImportError):
    from accelkit.install.adoption import adopt_gcushare


def main():
    module = api_module()
    found = call(module, lambda api: adopt_gcushare(api, check=module.check_mode))
    before = {"releases": list(found.releases), "nodes": list(found.nodes)}
    module.exit_json(
        changed=any(before.values()),
        diff={"before": before, "after": {"releases": [], "nodes": []}},
        former_unit=found.former_unit,
        **before,
    )


if __name__ == "__main__":
    main()
