#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: scheduler_config
short_description: Configure kube-scheduler on a host to call accelkit's extender
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Configures kube-scheduler on one host to use a copy of its configuration that contains accelkit's extender. The
    action then waits until kube-scheduler is running with this copy. If kube-scheduler does not start, the action
    restores the previous launch file, and fails with the last lines of kube-scheduler's log.
  - The action replaces the launch file with a single rename. The launch file is the static pod manifest, a systemd
    drop-in or a similar file. The comments, order and quotes in a manifest are preserved.
  - kube-scheduler supports only one extender that binds pods. The action fails if another extender binds pods.
  - Before the first change, the action records the content, mode and owner of the launch file in O(backup_dir).
    O(state=absent) restores this original file. If a user or another program has changed the launch file in the
    meantime, the action removes only accelkit's changes.
  - The action plugin runs its logic on the controller. The managed host needs a POSIX shell, but not Python. With
    O(pod), Ansible does not connect to the host. Instead, a pod on the node runs the logic and changes the files.
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
      - V(verified) does not change anything. The action fails if the configuration differs, or if kube-scheduler is not
        running.
      - V(absent) restores the original configuration.
    type: str
    choices: [present, verified, absent]
    default: present
  launch:
    description: Method that starts kube-scheduler on the host.
    type: dict
    default: {}
    suboptions:
      kind:
        description:
          - V(static_pod) is a static pod manifest, as created by kubeadm.
          - V(systemd) is a systemd unit. V(k3s) and V(rke2) are the server services of these distributions.
          - V(config_file) is a KubeSchedulerConfiguration file that the action edits in place. The program that runs
            kube-scheduler must watch this file.
        type: str
        choices: [static_pod, systemd, k3s, rke2, config_file]
        default: static_pod
      path:
        description: Path of the manifest or the configuration file. The default is the path of kubeadm's manifest.
        type: str
        default: ""
      unit:
        description: Name of the systemd unit. The default is the usual name of the unit.
        type: str
        default: ""
      state_path:
        description: >-
          With V(config_file), path of the JSON status file of the program that runs kube-scheduler, with C(ready),
          C(config_sha256) and C(error).
        type: str
        default: ""
  node:
    description: Name of the host's node. With V(static_pod), the action watches the mirror pod on this node.
    type: str
    default: ""
  kubernetes_version:
    description: Version of the cluster, for example V(v1.34.4). It determines the format of the configuration.
    type: str
    default: ""
  extender:
    description: Settings for calls to the extender. Required unless O(state=absent).
    type: dict
    suboptions:
      url_prefix:
        description: URL of the extender, for example V(https://10.96.0.20:32766).
        type: str
        required: true
      server_name:
        description: >-
          Server name to verify in the extender's certificate. Required if the URL contains an IP address.
        type: str
        default: ""
      weight:
        description: Weight of the extender's scores, relative to kube-scheduler's plugins.
        type: int
        default: 1
      http_timeout:
        description: Timeout for each call, as a Go duration.
        type: str
        default: 10s
      node_cache_capable:
        description: Whether kube-scheduler sends only node names instead of complete nodes.
        type: bool
        default: true
      ignorable:
        description: >-
          Whether kube-scheduler schedules pods without the extender if the extender does not respond. These pods do not
          get cards.
        type: bool
        default: false
      managed_resources:
        description: Resources that the extender manages. kube-scheduler calls the extender for pods that request at
          least one of these resources.
        type: list
        elements: str
        default: [accelkit.io/memory, accelkit.io/cards]
  credentials:
    description: >-
      PEM certificates and private key that kube-scheduler and the extender use to authenticate each other. Required for
      HTTPS.
    type: dict
    suboptions:
      ca:
        description: CA certificates for verifying the extender's certificate.
        type: str
        required: true
      certificate:
        description: kube-scheduler's client certificate.
        type: str
        required: true
      key:
        description: kube-scheduler's private key.
        type: str
        required: true
  pod:
    description:
      - Settings to access the host through a pod on O(node), instead of the connection in the inventory. The action
        creates the pod, its permissions and its Secret in C(kube-system), and deletes them afterwards.
      - In check mode, the action does not create a pod. It only reads from the API server, and warns that it cannot
        determine the changes to the files.
      - This option supports V(static_pod) and V(config_file).
    type: dict
    suboptions:
      image:
        description:
          - The accelkit image, which must exist on the node or in a registry. If it is empty, the action uses the image
            of the installed node agents.
        type: str
        default: ""
      pull_secrets:
        description: Names of Secrets in C(kube-system) that contain credentials for pulling the image.
        type: list
        elements: str
        default: []
      host_folders:
        description: >-
          Additional folders on the host that the pod can read. By default, the pod can read the folder of the manifest,
          O(folder) and O(backup_dir). If kube-scheduler's existing configuration is in a different folder, add this
          folder.
        type: list
        elements: path
        default: []
  dns_policy:
    description:
      - With V(ClusterFirstWithHostNet), kube-scheduler's pod can resolve Service names. By default, the action does not
        change the DNS policy, and kube-scheduler calls the extender by its IP address.
    type: str
    choices: ["", ClusterFirstWithHostNet]
    default: ""
  folder:
    description: Folder on the host for accelkit's files.
    type: str
    default: /etc/kubernetes/accelkit
  backup_dir:
    description:
      - Folder on the host for the record and the original files.
      - It must not be the folder of the launch file, because the kubelet starts a pod for each file in its manifest
        folder.
    type: str
    default: /var/lib/accelkit/backup
  timeout:
    description: Timeout for each wait for kube-scheduler, in seconds.
    type: int
    default: 120
  adopt_gcushare:
    description:
      - Whether to adopt an installation of Enflame GCUShare. The action then records the manifest in GCUShare's backup
        as the original manifest, and deletes GCUShare's files.
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
  description: >-
    With O(state=absent), whether the action restored the recorded original file, including its mode and owner.
  returned: success
  type: bool
  sample: true
"""
