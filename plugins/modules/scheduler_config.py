#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: scheduler_config
short_description: Configure the kube-scheduler of a host to call the extender of accelkit
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Switches the kube-scheduler of one host to a copy of its configuration with the extender of accelkit, and waits
    until kube-scheduler runs with this copy. Otherwise, the action restores the former launch file and fails with the
    end of the log of kube-scheduler.
  - The switch is one rename of the launch file, which is the static pod manifest, a systemd drop-in or a similar file.
    Comments, order and quotes of a manifest stay unchanged.
  - kube-scheduler accepts only one extender that binds pods. The action fails if another extender binds pods.
  - Before the first change, the action records the content, mode and owner of the launch file in O(backup_dir).
    O(state=absent) restores them. If the launch file was changed by a user or another program since, the action removes
    only the part of accelkit.
  - The action makes its decisions on the controller. The managed host needs a POSIX shell and no Python. With O(pod),
    Ansible does not connect to the host, and a pod on the node makes the decisions and changes.
extends_documentation_fragment:
  - accelkit.kubernetes._connection
  - accelkit.kubernetes._attributes
  - accelkit.kubernetes._attributes.actiongroup_api
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  action:
    description: Runs on the controller, and runs small shell scripts on the managed host.
    support: full
requirements:
  - The Python package C(accelkit) on the controller.
options:
  state:
    description:
      - V(present) configures kube-scheduler to call the extender.
      - V(verified) changes nothing. The action fails if the configuration differs or kube-scheduler is not running.
      - V(absent) restores the original configuration.
    type: str
    choices: [present, verified, absent]
    default: present
  launch:
    description: Launch of kube-scheduler on the host.
    type: dict
    default: {}
    suboptions:
      kind:
        description:
          - V(static_pod) is a manifest of the kubelet, as kubeadm writes it.
          - V(systemd) is a systemd unit. V(k3s) and V(rke2) are the servers of these distributions.
          - V(config_file) is a KubeSchedulerConfiguration that the action edits in place and that the runner of
            kube-scheduler watches.
        type: str
        choices: [static_pod, systemd, k3s, rke2, config_file]
        default: static_pod
      path:
        description: Path of the manifest or the configuration. The default is the manifest of kubeadm.
        type: str
        default: ""
      unit:
        description: Name of the systemd unit. The default is the usual name.
        type: str
        default: ""
      state_path:
        description: With V(config_file), the JSON file of the runner, with C(ready), C(config_sha256) and C(error).
        type: str
        default: ""
  node:
    description: Name of the node of the host. With V(static_pod), the action watches its mirror pod.
    type: str
    default: ""
  kubernetes_version:
    description: Version of the cluster, for example V(v1.34.4). It determines the format of the configuration.
    type: str
    default: ""
  extender:
    description: Settings for calls of the extender. Required unless O(state=absent).
    type: dict
    suboptions:
      url_prefix:
        description: URL of the extender, for example V(https://10.96.0.20:32766).
        type: str
        required: true
      server_name:
        description: Name to verify in the certificate of the extender, if the URL contains an address.
        type: str
        default: ""
      weight:
        description: Weight of the scores of the extender, relative to the plugins of kube-scheduler.
        type: int
        default: 1
      http_timeout:
        description: Deadline of one call, as a Go duration.
        type: str
        default: 10s
      node_cache_capable:
        description: Whether kube-scheduler sends only the names of nodes, and not the nodes.
        type: bool
        default: true
      ignorable:
        description: >-
          Whether kube-scheduler schedules pods without the extender if the extender does not answer. These pods get no
          card.
        type: bool
        default: false
      managed_resources:
        description: kube-scheduler calls the extender for pods that request at least one of these resources.
        type: list
        elements: str
        default: [accelkit.io/memory, accelkit.io/cards]
  credentials:
    description: >-
      PEM certificates and key by which kube-scheduler and the extender authenticate each other. Required for HTTPS.
    type: dict
    suboptions:
      ca:
        description: Certificates of the authorities that sign the certificate of the extender.
        type: str
        required: true
      certificate:
        description: Client certificate of kube-scheduler.
        type: str
        required: true
      key:
        description: Private key of kube-scheduler.
        type: str
        required: true
  pod:
    description:
      - Access the host through a pod on O(node), and not through the connection of the inventory. The action creates
        the pod, its rights and its Secret in C(kube-system), and deletes them afterwards.
      - In check mode, the action creates no pod. It reads only the API server, and warns that it does not know the
        changes of the files.
      - It supports V(static_pod) and V(config_file).
    type: dict
    suboptions:
      image:
        description:
          - Image of accelkit, which the node must have or be able to pull. If it is empty, the action uses the image of
            the installed node agents.
        type: str
        default: ""
      pull_secrets:
        description: Names of Secrets in C(kube-system) for pulling the image.
        type: list
        elements: str
        default: []
      host_folders:
        description: >-
          Further folders of the host that the pod can read. By default, it can read the folders of the manifest,
          O(folder) and O(backup_dir). Add a folder if the existing configuration of kube-scheduler is in another
          folder.
        type: list
        elements: path
        default: []
  dns_policy:
    description:
      - V(ClusterFirstWithHostNet) lets the pod of kube-scheduler resolve names of Services. The default does not change
        the DNS policy, and kube-scheduler then calls the extender by its address.
    type: str
    choices: ["", ClusterFirstWithHostNet]
    default: ""
  folder:
    description: Folder on the host for the files of accelkit.
    type: str
    default: /etc/kubernetes/accelkit
  backup_dir:
    description:
      - Folder on the host for the record and the original content.
      - It must not be the folder of the launch file, because the kubelet starts each file in its manifest folder.
    type: str
    default: /var/lib/accelkit/backup
  timeout:
    description: Deadline of each wait for kube-scheduler in seconds.
    type: int
    default: 120
  adopt_gcushare:
    description:
      - Whether to adopt an installation of Enflame GCUShare. The manifest in its backup becomes the recorded original,
        and the action deletes its files.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Configure kube-scheduler to call the extender
  accelkit.kubernetes.scheduler_config:
    node: master-1
    kubernetes_version: v1.34.4
    extender:
      url_prefix: https://10.96.0.20:32766
      server_name: accelkit-extender.accelkit.svc
    credentials:
      ca: "{{ lookup('ansible.builtin.file', 'ca.crt') }}"
      certificate: "{{ lookup('ansible.builtin.file', 'client.crt') }}"
      key: "{{ lookup('ansible.builtin.file', 'client.key') }}"

- name: Restore the original configuration
  accelkit.kubernetes.scheduler_config:
    state: absent
    node: master-1
"""

RETURN = r"""
restored:
  description: With O(state=absent), whether the action restored the recorded original with its mode and owner.
  returned: success
  type: bool
  sample: true
"""
