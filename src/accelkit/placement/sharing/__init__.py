"""Sharing rules, which limit the cards that a pod may share and the amounts that its namespace may use."""
