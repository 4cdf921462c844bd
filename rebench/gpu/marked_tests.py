"""The project's tests that need a GPU, run where the tests lie beside the package."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

from rebench.gpu.correctness import Row

__all__ = ["run_marked_tests"]


def run_marked_tests(limit_s: float) -> list[Row]:
    """Run the tests marked ``gpu`` in a process of their own; one row with their last line."""
    project = Path(__file__).parents[2]
    tests = project / "tests" / "train"
    absent = [name for name in ("pytest", "pydantic") if importlib.util.find_spec(name) is None]
    if not tests.is_dir():
        absent.append("the folder tests (a plain installation has none)")
    if absent:
        return [_row(None, f"not run: {', '.join(absent)} missing")]
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider"]
    try:
        done = subprocess.run(  # noqa: S603 - our own tests
            [*command, str(tests)], cwd=project, capture_output=True, text=True, check=False,
            timeout=limit_s,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return [_row(None, f"not ended within {limit_s:.0f} s")]
    last = (done.stdout.strip().splitlines() or [done.stderr.strip()[-200:]])[-1]
    return [_row(done.returncode == 0, last)]


def _row(passed: bool | None, note: str) -> Row:
    return {"what": "tests marked gpu", "passed": passed, "note": note}
