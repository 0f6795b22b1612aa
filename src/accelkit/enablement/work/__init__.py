"""The checks of enablement that do work: a pod on each node that computes by a share, and what is read off it.

One check pod answers for two stages. What its container read and computed, and what its kubelet holds, is the device
plugin's; that kube-scheduler placed it with an assignment, and that the ledger counts it, is the extender's.
"""
