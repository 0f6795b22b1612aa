#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: object_prune
short_description: Delete objects that an installation made and wants no longer
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Finds objects by their labels C(app.kubernetes.io/part-of=accelkit) and C(app.kubernetes.io/managed-by=ansible),
    whatever variables they were made with, deletes those that are not wanted, and waits until they are gone.
  - It looks in C(kube-system), in the namespaces whose ServiceAccounts have rights by ClusterRoleBindings with these
    labels, in those of O(keep), and in O(namespaces). In other namespaces anybody could have written such labels.
  - The Lease by which the replicas of a deleted Deployment chose their leader goes with it.
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
    details: It shows names, never contents.
options:
  component:
    description:
      - Only objects with this value of the label C(app.kubernetes.io/component).
      - Without it, all objects of the installation, and namespaces that it made.
    type: str
    default: ""
  keep:
    description:
      - The objects that are wanted, as they are applied; C(kind) and C(metadata) are read of each.
    type: list
    elements: dict
    default: []
  namespaces:
    description:
      - Further namespaces to look in.
    type: list
    elements: str
    default: []
  timeout:
    description:
      - How long, in seconds, to wait until the objects are gone.
    type: int
    default: 120
"""

EXAMPLES = r"""
- name: Delete what is left of the second scheduler
  accelkit.kubernetes.object_prune:
    component: second-scheduler
"""

RETURN = r"""
deleted:
  description: What was deleted, or in check mode would be.
  returned: success
  type: list
  elements: str
  sample: [Deployment accelkit/accelkit-scheduler, ClusterRoleBinding accelkit-scheduler]
components:
  description:
    - The components of what was deleted, or in check mode would be, and of resource definitions, which it never
      deletes.
  returned: success
  type: list
  elements: str
  sample: [second-scheduler]
namespaces:
  description: Where it looked.
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
        # Only names are read, and a value in them is no reason to hide them.
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
