#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: openshift_info
short_description: Detect the OpenShift APIs in a cluster
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Reads the API groups from the API server, and returns which OpenShift APIs it serves.
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
"""

EXAMPLES = r"""
- name: Detect the OpenShift APIs
  accelkit.kubernetes.openshift_info:
    kubeconfig: ~/.kube/config
  register: openshift
"""

RETURN = r"""
constraints:
  description: Whether SecurityContextConstraints control the admission of pods.
  returned: success
  type: bool
  sample: true
machines:
  description: Whether the cluster creates machines from MachineSets.
  returned: success
  type: bool
  sample: true
autoscaling:
  description: Whether an OpenShift operator scales MachineSets.
  returned: success
  type: bool
  sample: true
"""

from contextlib import suppress

from ansible_collections.accelkit.kubernetes.plugins.module_utils._api import api_module, call

# If accelkit is missing, _api reports this before the module uses these names.
with suppress(ImportError):
    import msgspec

    from accelkit.enablement.openshift.detection import find_openshift


def main():
    module = api_module()
    module.exit_json(changed=False, **msgspec.structs.asdict(call(module, find_openshift)))


if __name__ == "__main__":
    main()
