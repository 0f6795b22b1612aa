# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


# Private to this collection: its interface may change at any time.

from __future__ import annotations

import yaml

# The fields of an option in an argument specification, in addition to its suboptions.
FIELDS = ("type", "elements", "choices", "default", "required")


def read_argument_spec(documentation):
    """Return the argument specification from a module's documentation, for the action plugin with the same name."""
    return _specified(yaml.safe_load(documentation)["options"])


def _specified(options):
    return {name: _option(documented) for name, documented in options.items()}


def _option(documented):
    option = {field: documented[field] for field in FIELDS if field in documented}
    if "suboptions" in documented:
        option["options"] = _specified(documented["suboptions"])
    return option
