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
  - Returns the version of the collection C(accelkit.kubernetes) that the controller runs.
  - It is read from the collection's C(galaxy.yml) in a checkout, and from its C(MANIFEST.json) where it was installed.
    The Python package C(accelkit) is not asked, since another release of it may be installed.
"""

EXAMPLES = r"""
- name: Show the version
  ansible.builtin.debug:
    msg: "{{ lookup('accelkit.kubernetes.collection_version') }}"
"""

RETURN = r"""
_raw:
  description: The version.
  type: list
  elements: str
"""

import json
from pathlib import Path

import yaml
from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase

# A checkout's plugins may be linked into a folder of collections; galaxy.yml lies beside the folder they are linked to.
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
            f"neither {source} nor {manifest} has the version of the collection ({exc}); install it again"
        ) from exc
