#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: scheduler_config
short_description: Configure a host's kube-scheduler to call accelkit's extender
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Switches the kube-scheduler of one host to a copy of its configuration in which accelkit's extender is merged, and
    waits until it runs with it. If it does not, the former launch file is restored and the action fails with the
    end of the scheduler's log.
  - The switch is one rename of the launch file, which is the static-pod manifest, a systemd drop-in or the like.
    Comments, order and quotes of a manifest are kept.
  - kube-scheduler accepts one extender that binds pods. Where another one does, the action fails.
  - Before the first change bytes, mode and owner are recorded in O(backup_dir). With O(state=absent) exactly these are
    restored; where others changed the launch file since, only accelkit's part is removed.
  - The action decides on the controller. The managed host needs a POSIX shell, and no Python. With O(pod) it needs no
    connection of Ansible's either, and a pod on the node decides and acts.
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
    description: Runs on the controller, and small shell scripts on the managed host.
    support: full
requirements:
  - The Python package C(accelkit) on the controller.
options:
  state:
    description:
      - Whether kube-scheduler calls the extender.
      - With V(verified) nothing is changed, and the action fails where something would be, or the scheduler is not
        running.
    type: str
    choices: [present, verified, absent]
    default: present
  launch:
    description: How kube-scheduler is started on the host.
    type: dict
    default: {}
    suboptions:
      kind:
        description:
          - V(static_pod) is a manifest of the kubelet, as kubeadm writes it.
          - V(systemd) is a unit, V(k3s) and V(rke2) are those distributions' servers.
          - V(config_file) is a KubeSchedulerConfiguration that is edited in place and that its runner watches.
        type: str
        choices: [static_pod, systemd, k3s, rke2, config_file]
        default: static_pod
      path:
        description: Path of the manifest or the configuration. The default is kubeadm's manifest.
        type: str
        default: ""
      unit:
        description: Name of systemd's unit. Default is the usual one.
        type: str
        default: ""
      state_path:
        description: With V(config_file), the JSON file with C(ready), C(config_sha256) and C(error) of its runner.
        type: str
        default: ""
  node:
    description: Name of the host's node; with V(static_pod) its mirror pod is watched.
    type: str
    default: ""
  kubernetes_version:
    description: Version of the cluster as V(v1.34.4); it decides the format of the configuration.
    type: str
    default: ""
  extender:
    description: How kube-scheduler calls the extender. Required unless O(state=absent).
    type: dict
    suboptions:
      url_prefix:
        description: Where the extender listens, as V(https://10.96.0.20:32766).
        type: str
        required: true
      server_name:
        description: The name in the extender's certificate, where the URL has an address.
        type: str
        default: ""
      weight:
        description: Weight of its scores beside those of the scheduler's own plugins.
        type: int
        default: 1
      http_timeout:
        description: Deadline of one call, as a Go duration.
        type: str
        default: 10s
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
  credentials:
    description: PEM texts by which kube-scheduler and the extender authenticate each other; required for HTTPS.
    type: dict
    suboptions:
      ca:
        description: Certificates of the authorities that sign the extender's certificate.
        type: str
        required: true
      certificate:
        description: kube-scheduler's certificate as a client.
        type: str
        required: true
      key:
        description: Its private key.
        type: str
        required: true
  pod:
    description:
      - Reach the host through a pod on O(node) instead of the inventory's connection. The pod, its rights and its
        Secret are made in C(kube-system) and deleted afterwards; in check mode, too, since nothing else can look there.
      - It works for V(static_pod) and V(config_file).
    type: dict
    suboptions:
      image:
        description:
          - The image of accelkit, which the node has or can pull. Empty is that of the node agents which are installed.
        type: str
        default: ""
      pull_secrets:
        description: Names of Secrets in C(kube-system) for pulling the image.
        type: list
        elements: str
        default: []
      host_folders:
        description: >-
          Further folders of the host that the pod may read. It sees those of the manifest, of O(folder) and of
          O(backup_dir); another one is needed where a configuration that the scheduler has already lies elsewhere.
        type: list
        elements: path
        default: []
  dns_policy:
    description:
      - V(ClusterFirstWithHostNet) lets the scheduler's pod resolve names of Services. The default leaves it as it is,
        and the extender is then called by address.
    type: str
    choices: ["", ClusterFirstWithHostNet]
    default: ""
  folder:
    description: Folder on the host for accelkit's own files.
    type: str
    default: /etc/kubernetes/accelkit
  backup_dir:
    description:
      - Folder on the host for the record and the original bytes.
      - It must not be the folder of the launch file; the kubelet starts everything that lies in its manifest folder.
    type: str
    default: /var/lib/accelkit/backup
  timeout:
    description: Deadline, in seconds, of each wait for kube-scheduler.
    type: int
    default: 120
  adopt_gcushare:
    description:
      - Whether an installation of Enflame GCUShare is adopted. The manifest that it backed up counts as the
        original, and its files are deleted.
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
  description: With O(state=absent), whether the recorded original was restored with its mode and owner.
  returned: success
  type: bool
  sample: true
"""
