"""From a bare node to a watched one: stages, the checks that do work, the report, drivers, and who owns a node."""
