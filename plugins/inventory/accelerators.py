# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

DOCUMENTATION = r"""
name: accelerators
short_description: Nodes of a Kubernetes cluster, by their accelerators
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Makes a host of every node whose cards accelkit knows, with what is on them and what is free.
  - It reads nodes and pods from the API server, as C(accelkit inspect --from-api) does, and needs no running extender.
    Nodes on which accelkit was never installed are not there.
  - The hosts are in the group C(accelerators), in C(accelerators_vendor_NAME) and C(accelerators_model_NAME) for the
    vendors and models of their cards, in C(accelerators_sharing_shared), or C(accelerators_sharing_unknown) where the
    inventory of the node cannot be used, and in C(accelerators_free_AMOUNT) for each of O(free_memory).
  - None of these is a group of accelkit's playbooks, which find the nodes by themselves. A host has the node's address
    as C(ansible_host) and its name as C(accelkit_node_name), so O(groups) may put it into C(accelkit_nodes) where it is
    reached by SSH; then all hosts have to be in that group or in C(accelkit_control_plane).
  - The name of its configuration ends in C(accelerators.yml) or C(accelerators.yaml).
extends_documentation_fragment:
  - accelkit.kubernetes._connection
  - ansible.builtin.constructed
requirements:
  - The Python package C(accelkit) on the controller.
options:
  plugin:
    description:
      - Name of this plugin.
    type: str
    required: true
    choices: [accelkit.kubernetes.accelerators]
  free_memory:
    description:
      - Amounts of memory, as V(8GiB).
      - For each of them, a group has the nodes with a card that has as much free and takes new shares.
    type: list
    elements: str
    default: []
  request_timeout:
    description:
      - Deadline, in seconds, of each request to the API server.
    type: int
    default: 30
"""

EXAMPLES = r"""
---
# accelkit.accelerators.yml: found as kubernetes.core finds its cluster
plugin: accelkit.kubernetes.accelerators

---
# Groups accelerators_free_8gib and accelerators_free_40gib, and some of your own
plugin: accelkit.kubernetes.accelerators
kubeconfig: ~/.kube/config
free_memory: [8GiB, 40GiB]
groups:
  idle: accelerators_used_bytes == 0
keyed_groups:
  - prefix: cards
    key: accelerators_cards | length
"""

import asyncio
import re

from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin, Constructable
from ansible.utils.unsafe_proxy import wrap_var
from ansible_collections.accelkit.kubernetes.plugins.module_utils._connection import read_options
from ansible_collections.accelkit.kubernetes.plugins.module_utils._package import find_problem

IMPORT_ERROR = None
try:
    import msgspec

    from accelkit.errors import AccelkitError
    from accelkit.inspection.inspection import inspect_cluster
    from accelkit.kube.client import ApiClient
    from accelkit.kube.connection import load_connection
    from accelkit.model.units import parse_size
except ImportError as exc:
    IMPORT_ERROR = exc

NAME = "accelkit.kubernetes.accelerators"
GROUP = "accelerators"


class InventoryModule(BaseInventoryPlugin, Constructable):
    NAME = NAME

    def verify_file(self, path):
        return super().verify_file(path) and path.endswith((f"{GROUP}.yml", f"{GROUP}.yaml"))

    def parse(self, inventory, loader, path, cache=True):  # noqa: FBT002 - the arguments of every inventory plugin
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        if problem := find_problem(IMPORT_ERROR):
            raise AnsibleParserError(problem)
        try:
            sizes = {text: parse_size(text) for text in self.get_option("free_memory")}
            inspection = asyncio.run(self._inspect())
        except AccelkitError as exc:
            raise AnsibleParserError(str(exc)) from exc
        for node in inspection.nodes:
            self._add_node(node, sizes)

    async def _inspect(self):
        connection = load_connection(read_options(self.get_options()))
        async with ApiClient(connection, timeout_seconds=self.get_option("request_timeout")) as api:
            return await inspect_cluster(api)

    def _add_node(self, node, sizes):
        host = self.inventory.add_host(node.name)
        variables = build_variables(node)
        for name, value in variables.items():
            self.inventory.set_variable(host, name, value)
        for name in list_groups(node, sizes):
            self.inventory.add_child(self.inventory.add_group(GROUP), self.inventory.add_group(name))
            self.inventory.add_child(name, host)
        strict = self.get_option("strict")
        self._set_composite_vars(self.get_option("compose"), variables, host, strict=strict)
        self._add_host_to_composed_groups(self.get_option("groups"), variables, host, strict=strict)
        self._add_host_to_keyed_groups(self.get_option("keyed_groups"), variables, host, strict=strict)


def build_variables(node):
    """Return the variables of a node's host: plain data, amounts in bytes."""
    variables = {
        "accelkit_node_name": node.name,
        f"{GROUP}_sharing": node.state,
        f"{GROUP}_problem": node.problem,
        f"{GROUP}_unit_bytes": node.unit_bytes,
        f"{GROUP}_capacity_bytes": node.totals.capacity_bytes,
        f"{GROUP}_used_bytes": node.totals.used_bytes,
        f"{GROUP}_free_bytes": node.totals.free_bytes,
        f"{GROUP}_largest_free_bytes": find_largest_free(node),
        f"{GROUP}_cards": msgspec.to_builtins(node.cards),
    }
    if node.address:
        variables["ansible_host"] = node.address
    # Users and kubelets write some of these texts: older releases of Ansible would take them for templates.
    return wrap_var(variables)


def find_largest_free(node):
    """Return the most bytes that one card of the node has for new shares; 0 where nothing is known or shared."""
    takes_shares = node.state == "shared"
    free = [
        card.free_bytes
        for card in node.cards
        if takes_shares and card.known and not card.cordoned and card.health != "unhealthy"
    ]
    return max(free, default=0)


def list_groups(node, sizes):
    """Return the names of a node's groups; `sizes` are the bytes of each amount of free memory that has one."""
    cards = [card for card in node.cards if card.known]
    words = {
        f"sharing_{node.state}",
        *(f"vendor_{card.vendor}" for card in cards),
        *(f"model_{card.model}" for card in cards if card.model),
        *(f"free_{text}" for text, size in sizes.items() if find_largest_free(node) >= size),
    }
    return sorted(f"{GROUP}_{re.sub(r'[^0-9a-z]+', '_', word.lower()).strip('_')}" for word in words)
