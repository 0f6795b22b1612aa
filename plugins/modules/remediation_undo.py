#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: remediation_undo
short_description: Revert the changes that remediation made on nodes
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Removes the cordons of cards, the taint C(accelkit.io/unhealthy), the condition C(AcceleratorHealthy) and the
    annotation C(accelkit.io/remediation) from all nodes.
  - The module removes only changes that the node's record attributes to remediation. It does not remove changes by
    other users and controllers.
  - Before you run the module, stop the remediation service, because it would make the changes again.
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
    details: The module returns the names of the nodes.
"""

EXAMPLES = r"""
- name: Revert the changes of remediation on all nodes
  accelkit.kubernetes.remediation_undo:
    kubeconfig: ~/.kube/config
"""

RETURN = r"""
nodes:
  description: Sorted names of the nodes on which changes were reverted, or would be reverted in check mode.
  returned: success
  type: list
  elements: str
  sample: [node-1]
"""

from contextlib import suppress

from ansible_collections.accelkit.kubernetes.plugins.module_utils._api import api_module, call

# If accelkit is missing, _api reports this before the module uses these names.
with suppress(ImportError):
    from accelkit.remediation.undoing import undo_all


def main():
    module = api_module()
    nodes = call(module, lambda api: undo_all(api, dry_run=module.check_mode))
    module.exit_json(changed=bool(nodes), nodes=nodes)


if __name__ == "__main__":
    main()
