import re
from pathlib import Path

import pytest

from accelkit.model import keys

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs/reference/keys.md").read_text()
OURS = {
    name: value
    for name, value in vars(keys).items()
    if isinstance(value, str) and re.match(r"([a-z]+\.)?accelkit\.io/", value) and name != "CACHE_KEY_PREFIX"
}


@pytest.mark.parametrize("name", OURS)
def test_each_key_is_on_reference_page(name):
    value = OURS[name]
    assert f"`{value}" in PAGE or f"`/{value.removeprefix(keys.CACHE_KEY_PREFIX)}`" in PAGE


def test_each_key_is_defined_in_one_place():
    """A key that is written out elsewhere is not found by who looks for its writers."""
    allowed = {"model/keys.py", "audit/bypassing.py", "cachecontroller/cluster_view.py"}
    literal = re.compile("|".join(f'"{re.escape(value)}"' for value in OURS.values()))
    source = REPOSITORY / "src/accelkit"
    found = {str(path.relative_to(source)) for path in source.rglob("*.py") if literal.search(path.read_text())}
    assert found <= allowed
