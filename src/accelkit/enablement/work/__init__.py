"""Checks of nodes with a pod that runs a computation with a share, and the judgement of the results.

One check pod serves two stages. The stage of the device plugin uses the evidence from its container and the devices
that the kubelet allocated. The stage of the extender uses its placement, its assignment and its entry in the ledger.
"""
