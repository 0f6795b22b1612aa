# Copyright (c) 2026, The accelkit authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


# Private to this collection: no promise is made about it.

from __future__ import annotations

import yaml

# What an argument specification has of an option, beside its suboptions.
FIELDS = ("type", "elements", "choices", "default", "required")


def read_argument_spec(documentation):
    """Return the argument specification of a module by its documentation, for the action plugin of the same name."""
    return _specified(yaml.safe_load(documentation)["options"])


def _specified(options):
    return {name: _option(documented) for name, documented in options.items()}


def _option(documented):
    option = {field: documented[field] for field in FIELDS if field in documented}
    if "suboptions" in documented:
        option["options"] = _specified(documented["suboptions"])
    return option
