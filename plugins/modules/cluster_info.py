#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: cluster_info
short_description: Gather information about the version and nodes of a cluster
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Reads the version of the API server, and the names, addresses and roles of the nodes.
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
seealso:
  - module: accelkit.kubernetes.memory_info
"""

EXAMPLES = r"""
- name: Read the version and the nodes
  accelkit.kubernetes.cluster_info:
    kubeconfig: ~/.kube/config
  register: cluster
"""

RETURN = r"""
server:
  description: URL of the API server.
  returned: success
  type: str
  sample: https://192.0.2.10:6443
version:
  description: Version of the API server.
  returned: success
  type: str
  sample: v1.34.4
nodes:
  description: List of the nodes, sorted by name.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the node.
      type: str
      sample: worker-1
    address:
      description: >-
        InternalIP address of the node, otherwise its host name. The value is empty if the node has neither of these
        addresses.
      type: str
      sample: 192.0.2.21
    control_plane:
      description: Whether the node has a control-plane label.
      type: bool
      sample: false
"""

from contextlib import suppress

from ansible_collections.accelkit.kubernetes.plugins.module_utils._api import api_module, call

# If accelkit is missing, _api reports this before the module uses these names.
with suppress(ImportError):
    import msgspec

    from accelkit.install.cluster import read_cluster


def main():
    module = api_module()
    module.exit_json(changed=False, **msgspec.to_builtins(call(module, read_cluster)))


if __name__ == "__main__":
    main()
