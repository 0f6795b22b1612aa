"""Checks that run a pod on each node, which runs a computation with a share, and the judgement of its results.

One check pod serves two stages. The evidence from its container and the devices that its kubelet allocated belong to
the device plugin's stage. Its placement with an assignment and its entry in the ledger belong to the extender's stage.
"""
