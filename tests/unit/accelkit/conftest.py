import pytest
from fake_api.server import FakeApi
from http_service import Pki


@pytest.fixture
def api():
    return FakeApi()


@pytest.fixture
def pki(tmp_path):
    return Pki(tmp_path)
