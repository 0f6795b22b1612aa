#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: node_image
short_description: Import an image archive on a node
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Imports an image archive into the container runtime of a node, for clusters without a registry.
  - Deletes other images in the same repository. Containers that use these images continue to run.
  - The node requires a POSIX shell and a container runtime (containerd, k3s, Docker or Podman), but not Python.
extends_documentation_fragment:
  - accelkit.kubernetes._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  action:
    description: Runs on the controller, and runs small shell scripts on the managed host.
    support: full
options:
  state:
    description: Whether the image must exist on the node.
    type: str
    choices: [present, absent]
    default: present
  repository:
    description: Repository of the image, for example V(accelkit.io/accelkit).
    type: str
    required: true
  tag:
    description: >-
      Tag of the image. Different content must have a different tag, because the module does not import an existing tag
      again.
    type: str
  archive:
    description: Path on the controller to an archive that C(docker save) created.
    type: path
"""

EXAMPLES = r"""
- name: Import the image on the node
  accelkit.kubernetes.node_image:
    repository: accelkit.io/accelkit
    tag: 0.1.0-1f0c2d3e4a5b
    archive: images/accelkit-0.1.0-1f0c2d3e4a5b.tar.gz

- name: Delete the image
  accelkit.kubernetes.node_image:
    repository: accelkit.io/accelkit
    state: absent
"""

RETURN = r"""
reference:
  description: Image reference for pods on this node. It contains the digest if the container runtime stores the digest.
  returned: success
  type: str
  sample: accelkit.io/accelkit@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
removed:
  description: Names of the deleted images.
  returned: success
  type: list
  elements: str
  sample: [accelkit.io/accelkit:0.1.0-000000000000]
"""
