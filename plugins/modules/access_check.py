#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: access_check
short_description: Check that a user has the permissions that an installation needs
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Sends a SelfSubjectAccessReview to the API server for each permission. Fails with a list of all missing permissions.
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
options:
  rules:
    description:
      - The required permissions, in the format of rules in a Role or ClusterRole.
    type: list
    elements: dict
    required: true
    suboptions:
      apiGroups:
        description: API groups of the resources. An empty string represents the core group.
        type: list
        elements: str
        required: true
      resources:
        description: The resources, for example C(nodes) or C(nodes/status).
        type: list
        elements: str
        required: true
      verbs:
        description: The verbs.
        type: list
        elements: str
        required: true
  namespaces:
    description:
      - Namespaces in which the permissions for namespaced resources are required. The verb C(list) is required in all
        namespaces.
    type: list
    elements: str
    required: true
  required:
    description:
      - Whether to fail if a permission is missing. With V(false), the module only returns RV(denied).
    type: bool
    default: true
"""

EXAMPLES = r"""
- name: Check that the user can label nodes
  accelkit.kubernetes.access_check:
    namespaces: [accelkit, kube-system]
    rules:
      - apiGroups: [""]
        resources: [nodes]
        verbs: [list, patch]
"""

RETURN = r"""
denied:
  description: The missing permissions.
  returned: always
  type: list
  elements: str
  sample: [patch nodes, create daemonsets.apps in accelkit]
"""

from contextlib import suppress

from ansible_collections.accelkit.kubernetes.plugins.module_utils._api import api_module, call

# If accelkit is missing, _api reports this before the module uses these names.
with suppress(ImportError):
    import msgspec

    from accelkit.install.access import AccessRule, find_denied


def main():
    lists = {"type": "list", "elements": "str", "required": True}
    module = api_module(
        rules={
            "type": "list",
            "elements": "dict",
            "required": True,
            "options": {"apiGroups": lists, "resources": lists, "verbs": lists},
        },
        namespaces=lists,
        required={"type": "bool", "default": True},
    )
    rules = msgspec.convert(module.params["rules"], list[AccessRule])
    denied = [str(each) for each in call(module, lambda api: find_denied(api, rules, module.params["namespaces"]))]
    if denied and module.params["required"]:
        module.fail_json(
            msg=f"the API server's user may not {', '.join(denied)}; let an administrator bind it to"
            " playbooks/files/installer.yml",
            denied=denied,
        )
    module.exit_json(changed=False, denied=denied)


if __name__ == "__main__":
    main()
