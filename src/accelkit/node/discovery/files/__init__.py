"""Readers of the files that list the cards of a host, define names of device nodes, or override facts about cards."""
