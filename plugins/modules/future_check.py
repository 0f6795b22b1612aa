#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: future_check
short_description: Check whether nodes will work with another kernel, Kubernetes version or driver
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Returns yes, no or unknown for each node, with the reason and the next action. Run the module before you change the
    node. If required information cannot be read, the result is unknown.
  - A node works with a kernel if, for each vendor of its cards, an image, a mapping or a package for this kernel
    exists.
  - A node works with a Kubernetes version if the version skew is supported, and no client uses an API that is removed
    in this version. In addition, the feature gates that the devices need must exist and be enabled.
  - A node works with a driver if the driver is available, and all kernel caches that the node can load now can also be
    loaded with this driver.
extends_documentation_fragment:
  - accelkit.kubernetes._connection
  - accelkit.kubernetes._api
  - accelkit.kubernetes._registry
  - accelkit.kubernetes._attributes
  - accelkit.kubernetes._attributes.actiongroup_both
attributes:
  check_mode:
    support: full
    details: The module does not change anything.
  diff_mode:
    support: none
    details: The module does not change anything.
options:
  kernel:
    description:
      - Kernel release, in the format of C(uname -r).
    type: str
    default: ""
  kubernetes:
    description:
      - Version of Kubernetes, for example V(1.36).
    type: str
    default: ""
  driver:
    description:
      - Version of the driver.
    type: str
    default: ""
  vendor:
    description:
      - Vendor of the driver in O(driver).
      - By default, the version in O(driver) applies to the drivers of all vendors.
    type: str
    default: ""
  vendors:
    description:
      - The drivers of each vendor, as in O(accelkit.kubernetes.driver_plan#module:vendors).
    type: dict
    default: {}
  mode:
    description:
      - How drivers are installed on the nodes.
    type: str
    choices: [preinstalled, package, container, kmm]
    default: preinstalled
  node_selector:
    description:
      - Labels that select the nodes.
      - By default, the module selects all nodes.
    type: dict
    default: {}
  packages:
    description:
      - Whether the driver packages are available in the package manager of each node, by node name. For nodes that are
        not in this dictionary, the result is unknown.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Check whether the nodes work with another kernel and Kubernetes version
  accelkit.kubernetes.future_check:
    kernel: 5.14.0-503.11.1.el9_5.x86_64
    kubernetes: "1.36"
  register: future
"""

RETURN = r"""
answers:
  description:
    - The results, each with C(node), C(aspect) (V(kernel), V(kubernetes) or V(driver)), C(works) (V(yes), V(no) or
      V(unknown)), C(reason), C(evidence) and C(next_action).
  returned: success
  type: list
  elements: dict
refused:
  description: Sorted names of the nodes for which at least one result is no.
  returned: success
  type: list
  elements: str
unknown:
  description: Sorted names of the nodes for which at least one result is unknown and no result is no.
  returned: success
  type: list
  elements: str
"""

from contextlib import suppress

from ansible_collections.accelkit.kubernetes.plugins.module_utils._api import api_module, call
from ansible_collections.accelkit.kubernetes.plugins.module_utils._registry import (
    REGISTRY_ARGUMENTS,
    read_settings,
    to_builtins,
)

# If accelkit is missing, _api reports this before the module uses these names.
with suppress(ImportError):
    from accelkit.enablement.drivers.cluster import has_module_manager
    from accelkit.enablement.drivers.future.answers import FutureFacts, FutureVersions
    from accelkit.enablement.drivers.future.judging import judge_future
    from accelkit.enablement.drivers.future.kernel import DriverDelivery, list_images
    from accelkit.enablement.drivers.future.reading import read_caches, read_requested_apis, read_slice_fields
    from accelkit.enablement.drivers.images import find_images
    from accelkit.enablement.drivers.nodes import select_nodes
    from accelkit.enablement.drivers.reading import list_driver_nodes
    from accelkit.enablement.drivers.settings import read_drivers
    from accelkit.install.cluster import read_cluster


def main():
    module = api_module(
        kernel={"type": "str", "default": ""},
        kubernetes={"type": "str", "default": ""},
        driver={"type": "str", "default": ""},
        vendor={"type": "str", "default": ""},
        vendors={"type": "dict", "default": {}},
        mode={"type": "str", "choices": ["preinstalled", "package", "container", "kmm"], "default": "preinstalled"},
        node_selector={"type": "dict", "default": {}},
        packages={"type": "dict", "default": {}},
        **REGISTRY_ARGUMENTS,
    )
    answers = to_builtins(call(module, lambda api: _check(api, module)))
    refused = {each["node"] for each in answers if each["works"] == "no"}
    unknown = {each["node"] for each in answers if each["works"] == "unknown"}
    module.exit_json(changed=False, answers=answers, refused=sorted(refused), unknown=sorted(unknown - refused))


async def _check(api, module):
    given = module.params
    nodes = select_nodes(await list_driver_nodes(api), given["node_selector"])
    delivery = DriverDelivery(given["mode"], read_drivers(given["vendors"]), await has_module_manager(api))
    question = FutureVersions(given["kernel"], given["kubernetes"], given["driver"], given["vendor"])
    settings = read_settings(module)
    images = set()
    if question.kernel:
        images |= list_images(nodes, delivery, question.kernel)
    if question.driver:
        images |= list_images(nodes, delivery, "", question.driver, question.vendor)
    facts = FutureFacts(
        server=(await read_cluster(api)).version,
        requested=await read_requested_apis(api) if question.kubernetes else None,
        slice_fields=await read_slice_fields(api) if question.kubernetes else None,
        images=await find_images(images, settings),
        packages=given["packages"],
        caches=await read_caches(api, settings) if question.driver else None,
    )
    return judge_future(nodes, question, delivery, facts)


if __name__ == "__main__":
    main()
