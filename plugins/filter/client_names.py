# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

DOCUMENTATION = r"""
name: client_names
short_description: List the names in a client certificate
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Returns the common names and DNS names in a certificate. The extender uses these names to identify its clients.
options:
  _input:
    description: The certificate, as PEM.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Print the names that the extender uses to identify a client
  ansible.builtin.debug:
    msg: "{{ lookup('ansible.builtin.file', 'client.crt') | accelkit.kubernetes.client_names }}"
"""

RETURN = r"""
_value:
  description: Sorted list of the names.
  type: list
  elements: str
  sample: [accelkit-kube-scheduler]
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.accelkit.kubernetes.plugins.module_utils._package import find_problem


def client_names(certificate):
    """Return the names that the extender uses to identify a client with this certificate."""
    # Import here, because Ansible loads all filters of the collection in each task that uses one of them.
    try:
        from accelkit.errors import AccelkitError
        from accelkit.install.certificates.secrets import list_client_names
    except ImportError as exc:
        raise AnsibleFilterError(find_problem(exc)) from exc
    if problem := find_problem(None):
        raise AnsibleFilterError(problem)
    try:
        return list_client_names(str(certificate).encode())
    except AccelkitError as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    def filters(self):
        return {"client_names": client_names}
