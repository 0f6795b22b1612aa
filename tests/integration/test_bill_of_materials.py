import json
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from release import LOCK_OF_IMAGE, describe_image

pytestmark = pytest.mark.integration

PIN = re.compile(r"^([a-z0-9][a-z0-9.-]*)==(\S+)", re.MULTILINE)


def test_image_bill_of_materials_lists_each_locked_package_with_hashes():
    name, text = describe_image("1.2.3")
    bill = json.loads(text)
    assert (name, bill["bomFormat"]) == ("image.cdx.json", "CycloneDX")
    assert (bill["metadata"]["component"]["name"], bill["metadata"]["component"]["version"]) == ("accelkit", "1.2.3")
    assert {(each["name"], each["version"]) for each in bill["components"]} == set(
        PIN.findall(LOCK_OF_IMAGE.read_text())
    )
    assert all(reference["hashes"] for each in bill["components"] for reference in each["externalReferences"])
