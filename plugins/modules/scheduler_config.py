#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: scheduler_config
short_description: Put accelkit's extender into kube-scheduler's configuration
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Adds accelkit's entry to the C(extenders) of a KubeSchedulerConfiguration file, or brings it up to date. Only the
    lines of that entry change; comments, order and all else stay.
  - The entry is recognised by its managed resources (C(accelkit.io/*)) or its URL.
  - kube-scheduler accepts one extender that binds pods. Where another one does, the action fails.
  - Before the first change the file's bytes, mode and owner are recorded in O(backup_dir). With O(state=absent) exactly
    these are restored where the file is as it was written here; where others changed it, only the entry is taken out.
  - The action decides on the controller. The managed host needs no Python library.
extends_documentation_fragment:
  - accelkit.kubernetes._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  action:
    description: Runs on the controller, and copies files from and to the managed host.
    support: full
requirements:
  - The Python package C(accelkit) on the controller.
options:
  path:
    description: Path of the KubeSchedulerConfiguration on the managed host; the file must exist.
    type: path
    required: true
  state:
    description: Whether accelkit's entry is in the file.
    type: str
    choices: [present, absent]
    default: present
  backup_dir:
    description:
      - Folder on the managed host for the record and the original bytes.
      - It must not be the folder of O(path); the kubelet starts everything that lies in its manifest folder.
    type: path
    default: /var/lib/accelkit/backup
  extender:
    description: How kube-scheduler calls the extender. Required with O(state=present).
    type: dict
    suboptions:
      url_prefix:
        description: Where the extender listens, as V(http://127.0.0.1:32766).
        type: str
        required: true
      weight:
        description: Weight of its scores beside those of the scheduler's own plugins.
        type: int
        default: 1
      http_timeout:
        description: Deadline of one call, as a Go duration.
        type: str
        default: 10s
      enable_https:
        description: Whether the scheduler uses TLS.
        type: bool
        default: false
      tls_config:
        description: Credentials for TLS under kube-scheduler's own names, as C(caFile), C(certFile) and C(keyFile).
        type: dict
      node_cache_capable:
        description: Whether the scheduler sends names of nodes only, not the nodes.
        type: bool
        default: true
      ignorable:
        description: Whether pods are scheduled past the extender when it does not answer. They then get no card.
        type: bool
        default: false
      managed_resources:
        description: Pods that ask for one of these are sent to the extender.
        type: list
        elements: str
        default: [accelkit.io/memory, accelkit.io/cards]
"""

EXAMPLES = r"""
- name: Let kube-scheduler call the extender
  accelkit.kubernetes.scheduler_config:
    path: /etc/kubernetes/scheduler-config.yaml
    extender:
      url_prefix: http://127.0.0.1:32766

- name: Restore the configuration
  accelkit.kubernetes.scheduler_config:
    path: /etc/kubernetes/scheduler-config.yaml
    state: absent
"""

RETURN = r"""
path:
  description: The file.
  returned: success
  type: str
  sample: /etc/kubernetes/scheduler-config.yaml
sha256:
  description: SHA-256 of the file as it is now, or in check mode would be.
  returned: success
  type: str
  sample: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
restored:
  description: With O(state=absent), whether the recorded original was restored with its mode and owner.
  returned: success
  type: bool
  sample: true
"""
