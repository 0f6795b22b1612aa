"""Checks of enablement by work: a pod on each node that computes with a share, and the judgement of its results.

One check pod serves two stages. The evidence of its container and the devices that its kubelet allocated belong to the
device plugin's stage. Its placement with an assignment and its entry in the ledger belong to the extender's.
"""
