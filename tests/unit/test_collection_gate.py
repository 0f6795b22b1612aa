import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from collection_gate import find_unshipped

TRACKED = (
    *("CONTRIBUTING.md", "README.md", "docs/how-to/testing.md", "examples/shared-pods.yaml"),
    *("inventories/sample/hosts.yml", "playbooks/site.yml", "pyproject.toml", "roles/extender/README.md", "site.yml"),
)
SHIPPED = ("README.md", "docs/how-to/testing.md", "playbooks/site.yml", "site.yml")


@pytest.mark.parametrize(
    ("readme", "absent"),
    [
        (
            "[how](docs/how-to/testing.md#budget), [all](docs/), `playbooks/site.yml`, `docs`, `playbooks/`; site.yml.",
            [],
        ),
        (
            "[there](https://accelkit.io/docs/x.md), [here](#install-it), `accelkit.io/memory`, `/metrics`, e.g. this",
            [],
        ),
        ("[how](docs/absent.md)", ["docs/absent.md"]),
        ("`playbooks/absent.yml` and `roles/`", ["playbooks/absent.yml", "roles/"]),
        ("    kubectl apply -f examples/shared-pods.yaml", ["examples/shared-pods.yaml"]),
        ("CONTRIBUTING.md says so, and so does pyproject.toml.", ["CONTRIBUTING.md", "pyproject.toml"]),
        # What its reader makes is none of ours.
        (". .venv/bin/activate && cp -r inventories/sample inventories/mine", ["inventories/sample"]),
    ],
)
def test_paths_in_readme_that_are_not_shipped_are_reported(readme, absent):
    assert find_unshipped(readme, TRACKED, SHIPPED) == absent
