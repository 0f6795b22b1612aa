# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

DOCUMENTATION = r"""
name: collection_version
short_description: Read the version of this collection
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Returns the version of the collection C(accelkit.kubernetes) that the controller uses.
  - In a checkout, the plugin reads the version from C(galaxy.yml). For an installed collection, it reads the version
    from C(MANIFEST.json). It does not use the version of the Python package C(accelkit), because a different release of
    the package can be installed. """

EXAMPLES = r"""
- name: Print the version of the collection
  ansible.builtin.debug:
    msg: "{{ lookup('accelkit.kubernetes.collection_version') }}"
"""

RETURN = r"""
_raw:
  description: The version of the collection.
  type: list
  elements: str
"""

import json
from pathlib import Path

import yaml
from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase

# The plugins of a checkout can be linked into a collections folder. galaxy.yml is in the same folder as the link
# target.
ROOT = Path(__file__).resolve().parents[2]


class LookupModule(LookupBase):
    def run(self, terms, variables=None, **_kwargs):  # noqa: ARG002 - the arguments of every lookup
        return [read_version(ROOT)]


def read_version(root):
    """Return the version of the collection in a folder."""
    source, manifest = root / "galaxy.yml", root / "MANIFEST.json"
    try:
        if source.is_file():
            return str(yaml.safe_load(source.read_text())["version"])
        return str(json.loads(manifest.read_text())["collection_info"]["version"])
    except (OSError, KeyError, TypeError, ValueError, yaml.YAMLError) as exc:
        raise AnsibleLookupError(
            f"neither {source} nor {manifest} contains the version of the collection ({exc}); install it again"
        ) from exc
