# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

DOCUMENTATION = r"""
name: second_scheduler_configuration
short_description: Generate the configuration of a second kube-scheduler
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Generates the KubeSchedulerConfiguration of a second kube-scheduler, which runs in a pod in addition to the
    cluster's default scheduler. Returns the configuration as a string.
options:
  _input:
    description: C(extender), as in M(accelkit.kubernetes.scheduler_config), and C(kubernetes_version).
    type: dict
    required: true
  name:
    description: Value of C(spec.schedulerName) in the pods to schedule, which is also the name of the Lease.
    type: str
    required: true
  namespace:
    description: Namespace of the Lease.
    type: str
    required: true
  credentials:
    description: >-
      Folder in the scheduler's pod that contains C(ca.crt), C(tls.crt) and C(tls.key). The scheduler reads these files
      if the extender's URL uses HTTPS.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Print the configuration of a second scheduler
  ansible.builtin.debug:
    msg: >-
      {{ {'kubernetes_version': 'v1.34.4', 'extender': {'url_prefix': 'https://accelkit-extender.accelkit.svc:32766'}}
         | accelkit.kubernetes.second_scheduler_configuration(
             name='accelkit-scheduler', namespace='accelkit', credentials='/etc/accelkit/client') }}
"""

RETURN = r"""
_value:
  description: The configuration as a string.
  type: str
"""

import json

from ansible.errors import AnsibleFilterError
from ansible_collections.accelkit.kubernetes.plugins.module_utils._package import find_problem


def configuration(given, **options):
    # Import here, because Ansible loads all filters of the collection in each task that uses one of them.
    try:
        from accelkit.errors import AccelkitError
        from accelkit.scheduler.arguments import decode_spec
        from accelkit.scheduler.second_scheduler import build_second_scheduler_configuration
    except ImportError as exc:
        raise AnsibleFilterError(find_problem(exc)) from exc
    if problem := find_problem(None):
        raise AnsibleFilterError(problem)
    # A round trip through JSON converts the types of Ansible to plain types.
    given, options = json.loads(json.dumps([given, options]))
    try:
        return build_second_scheduler_configuration(decode_spec(given), **options)
    except AccelkitError as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    def filters(self):
        return {"second_scheduler_configuration": configuration}
