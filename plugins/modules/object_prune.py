#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: object_prune
short_description: Delete objects that an installation no longer needs
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Finds objects by their labels C(app.kubernetes.io/part-of=accelkit) and C(app.kubernetes.io/managed-by=ansible),
    regardless of the variables of the run that created the objects. Deletes objects that are not in O(keep), and waits
    until they no longer exist.
  - The module searches C(kube-system), the namespaces of the objects in O(keep), the namespaces in O(namespaces), and
    the namespaces whose ServiceAccounts are subjects of ClusterRoleBindings with these labels. It ignores other
    namespaces, because their users can set the same labels.
  - With a Deployment, the module also deletes the Lease that its replicas use for leader election.
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
    details: The diff contains only object names, not their content.
options:
  component:
    description:
      - Value of the label C(app.kubernetes.io/component) of the objects to delete.
      - By default, the module selects all objects of the installation, including the namespaces that the installation
        created.
    type: str
    default: ""
  keep:
    description:
      - The objects to keep. The module reads only C(kind) and C(metadata) of each object.
    type: list
    elements: dict
    default: []
  namespaces:
    description:
      - Additional namespaces to search.
    type: list
    elements: str
    default: []
  timeout:
    description:
      - Maximum time to wait for the deletion, in seconds.
    type: int
    default: 120
"""

EXAMPLES = r"""
- name: Delete the objects of the second scheduler
  accelkit.kubernetes.object_prune:
    component: second-scheduler
"""

RETURN = r"""
deleted:
  description: The deleted objects. In check mode, the objects that would be deleted.
  returned: success
  type: list
  elements: str
  sample: [Deployment accelkit/accelkit-scheduler, ClusterRoleBinding accelkit-scheduler]
components:
  description:
    - Components of the deleted objects. In check mode, components of the objects that would be deleted.
    - The list also contains the components of CustomResourceDefinitions, although the module does not delete these
      objects.
  returned: success
  type: list
  elements: str
  sample: [second-scheduler]
namespaces:
  description: The namespaces that were searched.
  returned: success
  type: list
  elements: str
  sample: [accelkit, kube-system]
"""

from contextlib import suppress

from ansible_collections.accelkit.kubernetes.plugins.module_utils._api import api_module, call

# If accelkit is missing, _api reports this before the module uses these names.
with suppress(ImportError):
    from accelkit.install.pruning import list_keys, prune


def main():
    module = api_module(
        component={"type": "str", "default": ""},
        # The module reads only names from these objects, and names are not secret.
        keep={"type": "list", "elements": "dict", "default": [], "no_log": False},
        namespaces={"type": "list", "elements": "str", "default": []},
        timeout={"type": "int", "default": 120},
    )
    given = module.params

    async def act(api):
        return await prune(
            api,
            component=given["component"],
            keep=list_keys(given["keep"]),
            timeout_seconds=given["timeout"],
            namespaces=given["namespaces"],
            check=module.check_mode,
        )

    pruned = call(module, act)
    deleted = [str(key) for key in pruned.deleted]
    before = "".join(f"{key}\n" for key in deleted)
    module.exit_json(
        changed=bool(deleted),
        deleted=deleted,
        components=pruned.components,
        namespaces=pruned.namespaces,
        diff={"before": before, "after": ""},
    )


if __name__ == "__main__":
    main()
