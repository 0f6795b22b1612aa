#!/usr/bin/python
# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# ruff: noqa: EXE001 - Ansible reads the shebang and wants no executable bit


from __future__ import annotations

DOCUMENTATION = r"""
module: driver_plan
short_description: Plan the drivers of cards by the kernels that the nodes run
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Reads which kernel and which vendors' cards each node has, and plans one DaemonSet per kernel and vendor.
  - Nodes that are not ready or cordoned are not acted upon. They are told in RV(problems).
  - With O(state=recorded) it labels the nodes with their kernel, by which these DaemonSets find them.
  - It says what runs and is not what is wanted, which nodes are to be upgraded, and which DaemonSets nobody needs.
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
      - V(recorded) writes the labels C(accelkit.io/driver-kernel) and C(accelkit.io/driver-vendor.VENDOR) to the nodes
        that lack them or have another kernel's.
      - V(absent) takes these labels and the record of upgrades off all nodes. Cordons stay.
    type: str
    choices: [planned, recorded, absent]
    default: planned
  vendors:
    description:
      - The drivers by vendor, as C(accelkit_driver_vendors); docs/how-to/drivers.md describes them.
    type: dict
    default: {}
  mode:
    description:
      - How drivers come to nodes. DaemonSets are planned for V(container) alone.
    type: str
    choices: [preinstalled, package, container, kmm]
    default: preinstalled
  prefix:
    description:
      - With which the names of DaemonSets begin.
    type: str
    default: accelkit-driver
  namespace:
    description:
      - Where the DaemonSets are.
    type: str
    default: accelkit
  node_selector:
    description:
      - Labels of the nodes that count; all nodes without it.
    type: dict
    default: {}
  adopt:
    description:
      - Whether drivers are also planned for nodes whose driver somebody else loads. With O(mode=preinstalled) nothing
        is brought to nodes, so nothing is left out.
    type: bool
    default: false
  packages_kernel:
    description:
      - The kernel that RV(packages) are for; that which each node runs without it.
    type: str
    default: ""
  packages_version:
    description:
      - The version of drivers that RV(packages) are for; that of O(vendors) without it.
    type: str
    default: ""
  look_for_images:
    description:
      - Whether the registries are asked for the planned images. Otherwise all of them count as there.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: See which drivers the nodes would get
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
    - The DaemonSets, each with C(name), C(vendor), C(kernel), C(label), C(system), C(image), C(version) and C(nodes).
  returned: success
  type: list
  elements: dict
problems:
  description: What is wrong, or not known, each with C(reason), C(message), C(nodes) and C(wrong).
  returned: success
  type: list
  elements: dict
missing:
  description: Names of the sets whose image is not in its registry.
  returned: success
  type: list
  elements: str
builds:
  description:
    - The Jobs that build missing images, each with C(name), C(image), C(builder), C(args), C(containerfile),
      C(push_secret), C(entitlement_secret) and C(node_selector).
  returned: success
  type: list
  elements: dict
unknown:
  description: Images of which no registry said whether they are there.
  returned: success
  type: list
  elements: str
deletable:
  description: DaemonSets that no plan names, that want no pod and have none.
  returned: success
  type: list
  elements: str
occupied:
  description: DaemonSets that no plan names, and that run on nodes still.
  returned: success
  type: list
  elements: str
outdated:
  description: The nodes whose driver is to be upgraded, each with C(node), C(why) and C(cordoned).
  returned: success
  type: list
  elements: dict
packages:
  description: The packages of drivers of each node, with O(mode=package); by node.
  returned: success
  type: dict
  sample: {worker-1: [nvidia-driver-550.54.14]}
vendors:
  description: The vendors of the cards of each node, by node; without those in RV(owned).
  returned: success
  type: dict
  sample: {worker-1: [nvidia]}
owned:
  description: Who else loads the drivers of O(vendors), by node and vendor; empty with O(adopt=true).
  returned: success
  type: dict
  sample: {worker-2: {nvidia: NVIDIA's gpu-operator}}
module_manager:
  description: Whether KMM is installed.
  returned: success
  type: bool
before:
  description: The labels of the nodes that change.
  returned: success
  type: dict
after:
  description: The same afterwards.
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
