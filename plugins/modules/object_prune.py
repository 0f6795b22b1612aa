#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: object_prune
short_description: Delete objects of an installation that are no longer needed
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Finds objects by their labels C(app.kubernetes.io/part-of=accelkit) and C(app.kubernetes.io/managed-by=ansible),
    regardless of the variables of the run that created them. Deletes objects that are not in O(keep), and waits until
    they no longer exist.
  - The module searches C(kube-system), the namespaces of O(keep) and O(namespaces), and the namespaces whose
    ServiceAccounts have rights by ClusterRoleBindings with these labels. It ignores other namespaces, because their
    users can write the same labels.
  - With a Deployment, the module also deletes the Lease by which its replicas elected their leader.
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
    details: The diff contains names, and never contents.
options:
  component:
    description:
      - Value of the label C(app.kubernetes.io/component) of the objects to delete.
      - By default, the module selects all objects of the installation, and the namespaces that it created.
    type: str
    default: ""
  keep:
    description:
      - The objects to keep, as they are applied. The module reads only C(kind) and C(metadata) of each object.
    type: list
    elements: dict
    default: []
  namespaces:
    description:
      - Further namespaces to search.
    type: list
    elements: str
    default: []
  timeout:
    description:
      - Limit in seconds of the wait for the deletion.
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
  description: The deleted objects, or in check mode the objects that would be deleted.
  returned: success
  type: list
  elements: str
  sample: [Deployment accelkit/accelkit-scheduler, ClusterRoleBinding accelkit-scheduler]
components:
  description:
    - Components of the deleted objects, or in check mode of the objects that would be deleted.
    - The list also contains the components of custom resource definitions, which the module never deletes.
  returned: success
  type: list
  elements: str
  sample: [second-scheduler]
namespaces:
  description: The searched namespaces.
  returned: success
  type: list
  elements: str
  sample: [accelkit, kube-system]
"""

from contextlib import suppress

from ansible_collections.accelkit.kubernetes.plugins.module_utils._api import api_module, call

# _api reports a missing accelkit before anything of this is called.
with suppress(ImportError):
    from accelkit.install.pruning import list_keys, prune


def main():
    module = api_module(
        component={"type": "str", "default": ""},
        # The module reads only names from these objects, so they are not secret.
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
