#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: toleration_check
short_description: Find pods that are excluded by the taints of nodes with cards
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - For each resource in O(resources), sends a dry-run request to create a pod that requests only this resource, and
    checks whether the returned pod tolerates the taints. The pod tolerates the taints if the admission plugin
    ExtendedResourceToleration is enabled.
  - Lists DaemonSets with pods that run on the tainted nodes but do not tolerate the taints. Also lists pods that
    request one of O(resources) but do not tolerate the taints.
  - The module only warns about these pods and DaemonSets. It does not fail.
extends_documentation_fragment:
  - accelkit.kubernetes._connection
  - accelkit.kubernetes._api
  - accelkit.kubernetes._attributes
  - accelkit.kubernetes._attributes.actiongroup_api
attributes:
  check_mode:
    support: full
    details: >-
      The module does not change anything. In check mode, it does not send dry-run requests, because the user may not
      have permission to create pods.
  diff_mode:
    support: none
    details: The module does not change anything.
options:
  taints:
    description:
      - Keys of the taints.
    type: list
    elements: str
    required: true
  tainted:
    description:
      - Names of the nodes with these taints.
    type: list
    elements: str
    required: true
  resources:
    description:
      - Extended resources that pods use to request cards.
    type: list
    elements: str
    required: true
  namespace:
    description:
      - Namespace for the dry-run requests, which do not create pods. It must exist.
    type: str
    default: accelkit
seealso:
  - module: accelkit.kubernetes.node_partition
"""

EXAMPLES = r"""
- name: Find the pods that the taints exclude
  accelkit.kubernetes.toleration_check:
    taints: [accelkit.io/memory]
    tainted: [node-1]
    resources: [accelkit.io/memory, accelkit.io/cards]
"""

RETURN = r"""
repelled:
  description: For each resource, the keys of the taints that are not tolerated by a pod that requests only this
    resource.
  returned: success
  type: dict
  sample: {accelkit.io/cards: [accelkit.io/memory]}
unknown:
  description: Reason why the result for a resource is unknown, by resource name.
  returned: success
  type: dict
  sample: {}
intolerant:
  description: The first 50 DaemonSets and pods that should tolerate the taints, but do not.
  returned: success
  type: list
  elements: str
  sample: [DaemonSet monitoring/node-exporter (accelkit.io/memory)]
"""

from contextlib import suppress

from ansible_collections.accelkit.kubernetes.plugins.module_utils._api import api_module, call

# If accelkit is missing, _api reports this before the module uses these names.
with suppress(ImportError):
    from accelkit.enablement.partitioning.admission import check_tolerations
    from accelkit.enablement.partitioning.reasons import NEXT_ACTIONS
    from accelkit.enablement.partitioning.tolerations import MOST_LISTED


def main():
    module = api_module(
        taints={"type": "list", "elements": "str", "required": True},
        tainted={"type": "list", "elements": "str", "required": True},
        resources={"type": "list", "elements": "str", "required": True},
        namespace={"type": "str", "default": "accelkit"},
    )
    given = module.params
    found = call(
        module,
        lambda api: check_tolerations(
            api,
            keys=given["taints"],
            tainted=given["tainted"],
            resources=[] if module.check_mode else given["resources"],
            card_resources=given["resources"],
            namespace=given["namespace"],
        ),
    )
    for resource, keys in found.repelled.items():
        _warn(module, "SharesRepelled", f"a pod that requests only {resource} does not tolerate the taints", keys)
    for resource, why in found.unknown.items():
        _warn(module, "AdmissionUnknown", f"a pod that requests {resource} is refused ({why})", given["taints"])
    listed = [str(each) for each in found.intolerant[:MOST_LISTED]]
    more = len(found.intolerant) - len(listed)
    if listed:
        listing = ", ".join(listed) + (f" and {more} more" if more else "")
        _warn(module, "TolerationMissing", f"these do not tolerate taints of their nodes: {listing}", given["taints"])
    module.exit_json(
        changed=False,
        repelled={resource: list(keys) for resource, keys in found.repelled.items()},
        unknown=found.unknown,
        intolerant=listed,
    )


def _warn(module, code, sentence, keys):
    module.warn(f"{code}: {sentence}; {NEXT_ACTIONS[code].replace('KEY', ' or '.join(keys))}")


if __name__ == "__main__":
    main()
