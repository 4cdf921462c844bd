"""``python -m rebench.gpu``: the check where the command line's own packages are missing."""

import argparse
import sys
from pathlib import Path


def main() -> int:
    """Run the check; return the exit code: 0 passed, 1 something failed, 2 bad input."""
    parser = argparse.ArgumentParser(prog="python -m rebench.gpu")
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--out", type=Path, default=Path("gpu-check"))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true")
    asked = parser.parse_args()
    try:
        from rebench.errors import RebenchError
        from rebench.gpu import check
        from rebench.gpu.report_text import report_text
    except ModuleNotFoundError as error:
        sys.stderr.write(f"the check needs numpy and torch, and {error.name} is not installed\n")
        return 1
    try:
        report = check(
            asked.out,
            device=asked.device,
            minutes=asked.minutes,
            small=asked.small,
            on_part=lambda name, state: print(f"{name}: {state}", file=sys.stderr, flush=True),  # noqa: T201 - a command line
        )
    except RebenchError as error:
        sys.stderr.write(f"rebench: {error}\n")
        return error.exit_code
    sys.stdout.write(report_text(report) + "\n")
    return 0 if report.passed else 1


if __name__ == "__main__":
    sys.exit(main())
