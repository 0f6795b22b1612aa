#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: run_lease
short_description: Prevent concurrent runs from changing a cluster
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Holds the Lease C(accelkit-run) in C(kube-system) until this Ansible run ends, even if it fails or is killed. Then
    deletes the Lease.
  - Fails if another run holds the Lease. If the Lease was not renewed for one minute, another run can acquire it,
    because it assumes that the machine of the holder has failed.
  - In check mode, the action only reads the Lease, and issues a warning that contains the holder.
extends_documentation_fragment:
  - accelkit.kubernetes._connection
  - accelkit.kubernetes._attributes
  - accelkit.kubernetes._attributes.actiongroup_api
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
    details: The Lease no longer exists after the run.
  action:
    description: Runs on the controller.
    support: full
requirements:
  - The Python package C(accelkit) on the controller.
"""

EXAMPLES = r"""
- name: Acquire the Lease, or fail if another run holds it
  accelkit.kubernetes.run_lease:
    kubeconfig: ~/.kube/config
"""

RETURN = r"""
holder:
  description: The run that holds the Lease, or an empty value if no run holds the Lease.
  returned: always
  type: str
  sample: admin@controller, process 4711
since:
  description: Start time of the run that holds the Lease.
  returned: always
  type: str
  sample: "2026-06-01T12:00:00.000000Z"
"""
