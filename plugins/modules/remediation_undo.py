#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: remediation_undo
short_description: Remove the marks that remediation left on nodes
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Removes the cordons of cards, the taint C(accelkit.io/unhealthy), the condition C(AcceleratorHealthy) and the
    annotation C(accelkit.io/remediation) from all nodes.
  - It removes only what the record on each node attributes to remediation. Marks of other users and controllers stay.
  - Stop the service of remediation first, because it would set the marks again.
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
- name: Remove the marks of remediation from all nodes
  accelkit.kubernetes.remediation_undo:
    kubeconfig: ~/.kube/config
"""

RETURN = r"""
nodes:
  description: Nodes from which marks were removed, or in check mode would be removed, sorted.
  returned: success
  type: list
  elements: str
  sample: [node-1]
"""

from contextlib import suppress

from ansible_collections.accelkit.kubernetes.plugins.module_utils._api import api_module, call

# _api reports a missing accelkit before anything of this is called.
with suppress(ImportError):
    from accelkit.remediation.undoing import undo_all


def main():
    module = api_module()
    nodes = call(module, lambda api: undo_all(api, dry_run=module.check_mode))
    module.exit_json(changed=bool(nodes), nodes=nodes)


if __name__ == "__main__":
    main()
