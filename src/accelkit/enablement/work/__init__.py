"""Checks of nodes by a pod that runs a computation on a share, and the evaluation of the results.

One check pod provides the results for two stages. The stage for the device plugin uses the evidence from the pod's
container and the devices that the kubelet allocated. The stage for the extender uses the pod's placement, assignment
and entry in the ledger.
"""
