import pytest


@pytest.fixture
def api(api):
    """An API server that knows GKM's kinds."""
    kinds = ("GKMCache", "ClusterGKMCache")
    api.documents["/apis/gkm.io/v1alpha1"] = {"resources": [{"kind": kind, "name": "n"} for kind in kinds]}
    return api
