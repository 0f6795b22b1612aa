from __future__ import annotations

import pytest
from fake_api.server import FakeApi


@pytest.fixture
def api():
    """An API server that knows GKM's kinds."""
    api = FakeApi()
    kinds = ("GKMCache", "ClusterGKMCache")
    api.documents["/apis/gkm.io/v1alpha1"] = {"resources": [{"kind": kind, "name": "n"} for kind in kinds]}
    return api
