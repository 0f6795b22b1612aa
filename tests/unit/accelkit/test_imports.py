"""Each module can be the first one that is imported: an import that goes round in a circle depends on who begins."""

import subprocess
import sys

SCRIPT = """
import importlib, pkgutil, sys
import accelkit.kernelcache

names = [each.name for each in pkgutil.walk_packages(accelkit.kernelcache.__path__, "accelkit.kernelcache.")]
for name in names:
    for known in [each for each in sys.modules if each.partition(".")[0] == "accelkit"]:
        del sys.modules[known]
    try:
        importlib.import_module(name)
    except ImportError as exc:
        print(name, exc)
print(len(names), "modules")
"""


def test_the_modules_of_kernel_caches_import_in_no_circle():
    result = subprocess.run([sys.executable, "-c", SCRIPT], check=True, capture_output=True, text=True, timeout=100)
    *failures, counted = result.stdout.splitlines()
    assert failures == []
    assert int(counted.split()[0]) > 50
