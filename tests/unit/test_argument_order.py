from itertools import permutations
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("arguments", list(permutations(["tests/folder/one", "tests/test_top.py", "tests/folder/two"])))
def test_folder_fixtures_are_found_in_any_argument_order(pytester, monkeypatch, arguments):
    pytester.makeini("[pytest]\naddopts = -p support.argument_order\n")
    uses = "def test_it(given): pass\n"
    for name, text in {
        "test_top.py": "def test_it(): pass\n",
        "folder/conftest.py": "import pytest\n@pytest.fixture\ndef given(): pass\n",
        "folder/one/test_one.py": uses,
        "folder/two/test_two.py": uses,
    }.items():
        (pytester.path / "tests" / name).parent.mkdir(parents=True, exist_ok=True)
        (pytester.path / "tests" / name).write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.runpytest_subprocess(*arguments).assert_outcomes(passed=3)
