import pytest
from signing_stand import FORMATS, signing_stand


@pytest.fixture
def stand(tmp_path):
    with signing_stand(tmp_path) as stand:
        yield stand


@pytest.fixture(params=FORMATS)
def form(request):
    return request.param
