#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: access_check
short_description: Check that the API server's user has the rights that an installation needs
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Asks the API server, by a SelfSubjectAccessReview for each right, and fails with all that are missing.
extends_documentation_fragment:
  - accelkit.kubernetes._connection
  - accelkit.kubernetes._api
  - accelkit.kubernetes._attributes
  - accelkit.kubernetes._attributes.actiongroup_api
attributes:
  check_mode:
    support: full
    details: It changes nothing.
  diff_mode:
    support: none
    details: It changes nothing.
options:
  rules:
    description:
      - What is needed, as a Role or ClusterRole has it.
    type: list
    elements: dict
    required: true
    suboptions:
      apiGroups:
        description: Groups of the resources; the empty text is the core group.
        type: list
        elements: str
        required: true
      resources:
        description: The resources, as C(nodes) or C(nodes/status).
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
      - Where rights to namespaced resources are needed, except to list them, which is needed in all namespaces.
    type: list
    elements: str
    required: true
  required:
    description:
      - Whether it fails where a right is missing; otherwise RV(denied) tells.
    type: bool
    default: true
"""

EXAMPLES = r"""
- name: Check that nodes may be labelled
  accelkit.kubernetes.access_check:
    namespaces: [accelkit, kube-system]
    rules:
      - apiGroups: [""]
        resources: [nodes]
        verbs: [list, patch]
"""

RETURN = r"""
denied:
  description: The rights that are missing.
  returned: always
  type: list
  elements: str
  sample: [patch nodes, create daemonsets.apps in accelkit]
"""

from contextlib import suppress

from ansible_collections.accelkit.kubernetes.plugins.module_utils._api import api_module, call

# _api reports a missing accelkit before anything of this is called.
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
