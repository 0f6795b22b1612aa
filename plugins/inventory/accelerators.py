# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

DOCUMENTATION = r"""
name: accelerators
short_description: Create hosts from the nodes of a Kubernetes cluster, grouped by accelerator
version_added: 0.1.0
author:
  - The accelkit authors (@accelkit)
description:
  - Creates a host for each node with cards that accelkit has detected. The variables of the host contain the cards and
    their free memory.
  - The plugin reads nodes and pods from the API server, as C(accelkit inspect --from-api) does. The extender does not
    need to run. The plugin does not create hosts for nodes on which accelkit was never installed.
  - The hosts are in the group C(accelerators), and in C(accelerators_vendor_NAME) and C(accelerators_model_NAME) for
    the vendors and models of their cards.
  - The hosts are also in the group C(accelerators_sharing_shared), or in C(accelerators_sharing_unknown) if the node's
    inventory cannot be used.
  - For each amount in O(free_memory), hosts that have a card with this amount of free memory are in the group
    C(accelerators_free_AMOUNT).
  - accelkit's playbooks do not use these groups, because the playbooks find the nodes automatically.
  - For each host, C(ansible_host) is the address of the node, and C(accelkit_node_name) is its name. Therefore, you can
    use O(groups) to add hosts that Ansible accesses over SSH to C(accelkit_nodes). In this case, all hosts must be in
    this group or in C(accelkit_control_plane).
  - The name of the configuration file must end in C(accelerators.yml) or C(accelerators.yaml).
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
      - Amounts of memory, for example V(8GiB).
      - For each amount, the plugin creates a group for nodes that have a card with at least this amount of free memory.
        The card must accept new shares.
    type: list
    elements: str
    default: []
  request_timeout:
    description:
      - Timeout for each request to the API server, in seconds.
    type: int
    default: 30
"""

EXAMPLES = r"""
---
# accelkit.accelerators.yml; the plugin finds the cluster in the same way as kubernetes.core
plugin: accelkit.kubernetes.accelerators

---
# Adds the groups accelerators_free_8gib and accelerators_free_40gib, and custom groups
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
    """Return the host variables for a node as plain data, with amounts in bytes."""
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
    # Users and kubelets write some of these strings, which older releases of Ansible would evaluate as templates.
    return wrap_var(variables)


def find_largest_free(node):
    """Return the largest number of bytes that are free for new shares on a single card of the node.

    The number is 0 if the node is not shared, or if its inventory cannot be used.
    """
    takes_shares = node.state == "shared"
    free = [
        card.free_bytes
        for card in node.cards
        if takes_shares and card.known and not card.cordoned and card.health != "unhealthy"
    ]
    return max(free, default=0)


def list_groups(node, sizes):
    """Return the names of the node's groups; `sizes` contains the amounts in the option `free_memory`, in bytes."""
    cards = [card for card in node.cards if card.known]
    words = {
        f"sharing_{node.state}",
        *(f"vendor_{card.vendor}" for card in cards),
        *(f"model_{card.model}" for card in cards if card.model),
        *(f"free_{text}" for text, size in sizes.items() if find_largest_free(node) >= size),
    }
    return sorted(f"{GROUP}_{re.sub(r'[^0-9a-z]+', '_', word.lower()).strip('_')}" for word in words)
