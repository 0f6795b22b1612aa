"""Files of a host in which people or tools list its cards, name their device nodes, or say what else holds of them."""
