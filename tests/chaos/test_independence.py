"""The validator judges the product, and shares no code with it."""

import subprocess
import sys

import headrace.chaos


def test_exports() -> None:
    assert {"World", "Role", "verdict", "Finding"} <= set(headrace.chaos.__all__)
    assert all(hasattr(headrace.chaos, name) for name in headrace.chaos.__all__)


def test_the_validator_imports_nothing_of_the_product() -> None:
    program = """
import sys, types
package = types.ModuleType("headrace.chaos")
package.__path__ = [sys.argv[1]]
sys.modules["headrace.chaos"] = package
import headrace.chaos._validator
print(sorted(name for name in sys.modules if name.startswith("headrace")))
"""
    folder = str(next(iter(headrace.chaos.__path__)))
    done = subprocess.run([sys.executable, "-c", program, folder], capture_output=True, text=True, timeout=60, check=True)
    names = ["headrace", "headrace.chaos", "headrace.chaos._evidence", "headrace.chaos._validator", "headrace.chaos._workload"]
    assert done.stdout.strip() == str(names)
