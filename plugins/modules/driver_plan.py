#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: driver_plan
short_description: Plan the drivers of cards by the kernels of the nodes
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Reads the kernel of each node and the vendors of its cards, and plans one DaemonSet per kernel and vendor.
  - The module does not act on nodes that are cordoned or not ready. RV(problems) lists them.
  - With O(state=recorded), it labels the nodes with their kernel, because these DaemonSets select nodes by this label.
  - It returns the differences between the plan and the cluster, the nodes to upgrade, and the DaemonSets that are no
    longer needed.
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
      - V(planned) changes nothing.
      - V(recorded) writes the labels C(accelkit.io/driver-kernel) and C(accelkit.io/driver-vendor.VENDOR) to nodes that
        do not have them, or that have those of another kernel.
      - V(absent) removes these labels and the records of upgrades from all nodes. Cordons stay.
    type: str
    choices: [planned, recorded, absent]
    default: planned
  vendors:
    description:
      - Drivers by vendor, as in C(accelkit_driver_vendors). The page docs/how-to/drivers.md describes them.
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
      - Prefix of the names of the DaemonSets.
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
      - Whether to plan drivers also for nodes whose driver has another owner.
      - It has no effect with O(mode=preinstalled), because accelkit then installs no driver and excludes no node.
    type: bool
    default: false
  packages_kernel:
    description:
      - Kernel of RV(packages).
      - By default, it is the kernel that each node runs.
    type: str
    default: ""
  packages_version:
    description:
      - Version of the drivers in RV(packages).
      - By default, it is the version in O(vendors).
    type: str
    default: ""
  look_for_images:
    description:
      - Whether to check in the registries that the planned images exist.
      - If V(false), the module assumes that all of them exist.
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
  description: Errors and unknown facts, each with C(reason), C(message), C(nodes) and C(wrong).
  returned: success
  type: list
  elements: dict
missing:
  description: Names of the sets whose image does not exist in its registry.
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
  description: Images whose registry did not report whether they exist.
  returned: success
  type: list
  elements: str
deletable:
  description: DaemonSets that are in no plan, have no pods and need none.
  returned: success
  type: list
  elements: str
occupied:
  description: DaemonSets that are in no plan, and still run on nodes.
  returned: success
  type: list
  elements: str
outdated:
  description: Nodes whose driver must be upgraded, each with C(node), C(why) and C(cordoned).
  returned: success
  type: list
  elements: dict
packages:
  description: With O(mode=package), the packages of the drivers of each node.
  returned: success
  type: dict
  sample: {worker-1: [nvidia-driver-550.54.14]}
vendors:
  description: Vendors of the cards of each node, without the nodes and vendors in RV(owned).
  returned: success
  type: dict
  sample: {worker-1: [nvidia]}
owned:
  description: Other owners of the drivers of O(vendors), by node and vendor. It is empty with O(adopt=true).
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

# _api reports a missing accelkit before anything of this is called.
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
