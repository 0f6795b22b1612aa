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
  - Uninstalls the Helm releases of the charts of GCUShare. The module does not need Helm, and does not run hooks.
  - Replaces the node label C(enflame.com/gcushare=true) by C(accelkit.io/share=true).
  - Finds the unit of memory of the pods of GCUShare by C(memoryUnit) of the releases. Writes the unit to the nodes, so
    that later runs find it too.
  - The module does not change running pods. M(accelkit.kubernetes.scheduler_config) adopts the entry of GCUShare in the
    configuration of kube-scheduler.
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
  description: The uninstalled Helm releases, as namespace and name.
  returned: success
  type: list
  elements: str
  sample: [kube-system/gcushare-device-plugin]
nodes:
  description: The nodes that GCUShare shared.
  returned: success
  type: list
  elements: str
  sample: [node-1]
former_unit:
  description: The unit of memory of the pods of GCUShare. It is empty if it was not found.
  returned: success
  type: str
  sample: 0.1GiB
"""

from contextlib import suppress

from ansible_collections.accelkit.kubernetes.plugins.module_utils._api import api_module, call

# _api reports a missing accelkit before anything of this is called.
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
