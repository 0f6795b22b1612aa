#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: driver_plan
short_description: Plan the card drivers for the kernels of the nodes
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Reads the kernel of each node and the vendors of its cards, and plans one DaemonSet for each combination of kernel
    and vendor.
  - The module does not act on nodes that are cordoned or not ready, and lists these nodes in RV(problems).
  - With O(state=recorded), the module labels the nodes with their kernel version, because the DaemonSets select nodes
    by this label.
  - The module returns the differences between the plan and the cluster, the nodes to upgrade, and the DaemonSets that
    are no longer needed.
extends_documentation_fragment:
  - accelkit.kubernetes._connection
  - accelkit.kubernetes._api
  - accelkit.kubernetes._registry
  - accelkit.kubernetes._attributes
  - accelkit.kubernetes._attributes.actiongroup_both
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
options:
  state:
    description:
      - V(planned) does not change anything.
      - V(recorded) adds the labels C(accelkit.io/driver-kernel) and C(accelkit.io/driver-vendor.VENDOR) to the nodes,
        and updates labels that refer to a previous kernel.
      - V(absent) removes these labels and the upgrade records from all nodes. It does not uncordon nodes.
    type: str
    choices: [planned, recorded, absent]
    default: planned
  vendors:
    description:
      - The drivers of each vendor, as in C(accelkit_driver_vendors). The format is described in docs/how-to/drivers.md.
    type: dict
    default: {}
  mode:
    description:
      - How drivers are installed on the nodes.
      - The module plans DaemonSets only with V(container).
    type: str
    choices: [preinstalled, package, container, kmm]
    default: preinstalled
  prefix:
    description:
      - Prefix for the names of the DaemonSets.
    type: str
    default: accelkit-driver
  namespace:
    description:
      - Namespace of the DaemonSets.
    type: str
    default: accelkit
  node_selector:
    description:
      - Labels that select the nodes.
      - By default, the module selects all nodes.
    type: dict
    default: {}
  adopt:
    description:
      - Whether to also plan drivers for nodes on which another operator manages the driver.
      - This option has no effect with O(mode=preinstalled), because accelkit then does not install drivers or exclude
        nodes.
    type: bool
    default: false
  packages_kernel:
    description:
      - Kernel for which RV(packages) is computed.
      - By default, this is the current kernel of each node.
    type: str
    default: ""
  packages_version:
    description:
      - Driver version for which RV(packages) is computed.
      - By default, this is the version in O(vendors).
    type: str
    default: ""
  look_for_images:
    description:
      - Whether to check that the planned images exist in their registries.
      - If V(false), the module assumes that all images exist.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Plan the drivers of the nodes
  accelkit.kubernetes.driver_plan:
    mode: container
    vendors:
      nvidia:
        version: 550.54.14
        image: registry.example.org/nvidia:${DRIVER_VERSION}-${KERNEL_FULL_VERSION}-${OS}
  register: drivers
"""

RETURN = r"""
sets:
  description:
    - The planned DaemonSets, each with C(name), C(vendor), C(kernel), C(label), C(system), C(image), C(version) and
      C(nodes).
  returned: success
  type: list
  elements: dict
problems:
  description: Errors and unknown states, each with C(reason), C(message), C(nodes) and C(wrong).
  returned: success
  type: list
  elements: dict
missing:
  description: Names of the DaemonSets with an image that does not exist in its registry.
  returned: success
  type: list
  elements: str
builds:
  description:
    - Jobs that build the missing images, each with C(name), C(image), C(builder), C(args), C(containerfile),
      C(push_secret), C(entitlement_secret) and C(node_selector).
  returned: success
  type: list
  elements: dict
unknown:
  description: Images for which the registry did not report whether they exist.
  returned: success
  type: list
  elements: str
deletable:
  description: DaemonSets that are not in the plan, do not have pods, and do not match any nodes.
  returned: success
  type: list
  elements: str
occupied:
  description: DaemonSets that are not in the plan, but still run on nodes.
  returned: success
  type: list
  elements: str
outdated:
  description: Nodes on which the driver must be upgraded, each with C(node), C(why) and C(cordoned).
  returned: success
  type: list
  elements: dict
packages:
  description: With O(mode=package), the driver packages for each node.
  returned: success
  type: dict
  sample: {worker-1: [nvidia-driver-550.54.14]}
vendors:
  description: Vendors of the cards in each node, except the nodes and vendors in RV(owned).
  returned: success
  type: dict
  sample: {worker-1: [nvidia]}
owned:
  description: Other owners of the drivers in O(vendors), by node and vendor. With O(adopt=true), the value is empty.
  returned: success
  type: dict
  sample: {worker-2: {nvidia: NVIDIA's gpu-operator}}
module_manager:
  description: Whether KMM is installed.
  returned: success
  type: bool
before:
  description: Labels of the changed nodes before the change.
  returned: success
  type: dict
after:
  description: Labels of the changed nodes after the change.
  returned: success
  type: dict
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
    from accelkit.enablement.drivers.cluster import (
        clear_nodes,
        has_module_manager,
        list_recorded,
        plan_cluster,
        record_kernels,
    )
    from accelkit.enablement.drivers.foreign import find_foreign_drivers, leave_out
    from accelkit.enablement.drivers.planning.packages import list_packages
    from accelkit.enablement.drivers.reading import list_driver_nodes
    from accelkit.enablement.drivers.settings import read_drivers

NOTHING = {
    name: [] for name in ("sets", "problems", "missing", "builds", "unknown", "deletable", "occupied", "outdated")
}


def main():
    module = api_module(
        state={"type": "str", "choices": ["planned", "recorded", "absent"], "default": "planned"},
        vendors={"type": "dict", "default": {}},
        mode={"type": "str", "choices": ["preinstalled", "package", "container", "kmm"], "default": "preinstalled"},
        prefix={"type": "str", "default": "accelkit-driver"},
        namespace={"type": "str", "default": "accelkit"},
        node_selector={"type": "dict", "default": {}},
        adopt={"type": "bool", "default": False},
        packages_kernel={"type": "str", "default": ""},
        packages_version={"type": "str", "default": ""},
        look_for_images={"type": "bool", "default": False},
        **REGISTRY_ARGUMENTS,
    )
    answer = call(module, lambda api: _act(api, module))
    module.exit_json(
        changed=answer["before"] != answer["after"],
        diff={"before": answer["before"], "after": answer["after"]},
        **answer,
    )


async def _act(api, module):
    given = module.params
    nodes = await list_driver_nodes(api)
    brings = given["mode"] != "preinstalled" and given["state"] != "absent" and not given["adopt"]
    foreign = await find_foreign_drivers(api) if brings else {}
    drivers = read_drivers(given["vendors"]) if given["state"] != "absent" else {}
    brought, _left_out = leave_out(nodes, foreign, drivers)
    known = {
        "owned": {node: to_builtins(held) for node, held in foreign.items() if held.keys() & drivers.keys()},
        "vendors": {node.name: list(node.vendors) for node in brought if node.vendors},
        "module_manager": await has_module_manager(api),
    }
    if given["state"] == "absent":
        recorded = list_recorded(nodes)
        if not module.check_mode:
            await clear_nodes(api, recorded)
        return {**NOTHING, **known, "packages": {}, "before": recorded, "after": {}}
    planned = await plan_cluster(
        api,
        drivers,
        prefix=given["prefix"],
        namespace=given["namespace"],
        in_containers=given["mode"] == "container",
        node_selector=given["node_selector"],
        registries=read_settings(module) if given["look_for_images"] else None,
        foreign=foreign,
    )
    written = planned.plan.labels if given["state"] == "recorded" else {}
    if not module.check_mode:
        await record_kernels(api, written)
    images = planned.images
    pinned = {"kernel": given["packages_kernel"], "version": given["packages_version"]}
    packages = list_packages(planned.nodes, drivers, **pinned) if given["mode"] == "package" else {}
    return {
        **known,
        "sets": to_builtins(planned.plan.sets),
        "problems": [_describe(each) for each in (*planned.plan.problems, *planned.mismatches)],
        "missing": [each.name for each in planned.plan.sets if images.get(each.image, True) is False],
        "builds": to_builtins(planned.builds),
        "packages": to_builtins(packages),
        "unknown": sorted(image for image, found in images.items() if found is None),
        "deletable": list(planned.obsolete.deletable),
        "occupied": list(planned.obsolete.occupied),
        "outdated": to_builtins(planned.outdated),
        "before": {node.name: node.recorded for node in nodes if node.name in written},
        "after": {node.name: {**node.recorded, **written[node.name]} for node in nodes if node.name in written},
    }


def _describe(problem):
    return {"reason": problem.reason, "message": str(problem), "nodes": list(problem.nodes), "wrong": problem.wrong}


if __name__ == "__main__":
    main()
