"""The validator judges the product, and shares no code with it."""

import subprocess
import sys

import headrace.laboratory.chaos


def test_exports() -> None:
    assert {"World", "Role", "verdict", "Finding"} <= set(headrace.laboratory.chaos.__all__)
    assert all(hasattr(headrace.laboratory.chaos, name) for name in headrace.laboratory.chaos.__all__)


def test_the_validator_imports_nothing_of_the_product() -> None:
    program = """
import sys, types
package = types.ModuleType("headrace.laboratory.chaos")
package.__path__ = [sys.argv[1]]
sys.modules["headrace.laboratory.chaos"] = package
import headrace.laboratory.chaos.validator
print(sorted(name for name in sys.modules if name.startswith("headrace")))
"""
    folder = str(next(iter(headrace.laboratory.chaos.__path__)))
    done = subprocess.run([sys.executable, "-c", program, folder], capture_output=True, text=True, timeout=300, check=True)
    names = [
        "headrace",
        "headrace.laboratory.chaos",
        "headrace.laboratory.chaos.evidence",
        "headrace.laboratory.chaos.validator",
        "headrace.laboratory.chaos.workload",
    ]
    assert done.stdout.strip() == str(names)
