"""What the programs of kernel caches may do, as the role gives it and as the documents tell it."""

from __future__ import annotations

import pytest
from kernel_cache_cases import render_cases
from rendering import ROOT

from accelkit.install.certificates.secrets import WEBHOOK

CONTROLLER, AGENT = "accelkit-cache-controller", "accelkit-cache-agent"
CASES = {"defaults": {}, "other": {"kernel_cache_webhook_secret": "tls-of-ours"}}
# Rendered once, by one process.
pytestmark = [pytest.mark.xdist_group("kernel_cache_rights"), pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def rendered(tmp_path_factory):
    """All objects by case, kind and name."""
    return render_cases(tmp_path_factory.mktemp("rights"), CASES)


@pytest.mark.parametrize(("case", "secret"), [("defaults", WEBHOOK), ("other", "tls-of-ours")])
def test_no_job_gets_the_key_of_the_webhook_whatever_its_name(rendered, case, secret):
    rules = rendered[case, "ValidatingAdmissionPolicy", CONTROLLER]["spec"]["validations"]
    (told,) = [each["expression"] for each in rules if "secretName" in each["expression"]]
    assert f'"{secret}"' in told
    assert f'"{WEBHOOK}"' in told


def test_the_documents_tell_every_right(rendered):
    """The table of docs/security.md against the roles of both programs."""
    text = (ROOT / "docs/security.md").read_text().partition("### Rights of the programs of kernel caches")[2]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| c")
    ]
    told = {
        (program, where, resource.strip("` "), frozenset(verbs.split(", ")))
        for program, where, resources, verbs in rows
        for resource in resources.split(", ")
    }
    given = {
        (program, where, resource, frozenset(rule["verbs"]))
        for name, program in ((CONTROLLER, "cache controller"), (AGENT, "cache agent"))
        for kind, where in (("ClusterRole", "cluster"), ("Role", "accelkit's namespace"))
        for rule in rendered.get(("defaults", kind, name), {}).get("rules", ())
        for resource in rule["resources"]
    }
    assert told == given != set()
