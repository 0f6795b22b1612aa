import pytest
from fake_api.server import FakeApi

KNOWN = "/apis/authentication.k8s.io/v1/tokenreviews"
ALLOWED = "/apis/authorization.k8s.io/v1/namespaces/d/localsubjectaccessreviews"
AUDIENCE = "accelkit.io/inspect"


class ReviewingApi(FakeApi):
    """An API server that knows `readers`: user and audiences by token; of the users, those in `allowed` may do
    what is in `verbs`."""

    def __init__(self):
        super().__init__()
        self.readers = {"good": ("ann", [AUDIENCE]), "poor": ("bob", [AUDIENCE]), "other": ("ann", ["vault"])}
        # One that an authenticator which knows no audiences accepts.
        self.readers["plain"] = ("ann", None)
        self.allowed, self.verbs = {"ann"}, {"get", "create"}
        self.reviews = {KNOWN: self._know, ALLOWED: self._allow}

    def _know(self, request):
        assert request.body["spec"]["audiences"] == [AUDIENCE]
        user, audiences = self.readers.get(request.body["spec"]["token"], ("", []))
        if not user or (audiences is not None and AUDIENCE not in audiences):
            return {"status": {"user": {}, "error": "no such token"}}
        held = {"username": user, "uid": "u", "groups": ["g"], "extra": {"k": ["v"]}}
        return {"status": {"authenticated": True, "user": held, **({"audiences": audiences} if audiences else {})}}

    def _allow(self, request):
        spec = request.body["spec"]
        allowed = spec["user"] in self.allowed and spec["resourceAttributes"]["verb"] in self.verbs
        return {"status": {"allowed": allowed}}


@pytest.fixture
def api():
    return ReviewingApi()
