"""List the results that are older than the code that they measure.

Run: ``python scripts/bench/stale.py [PROJECT]``. Each benchmark names this code in its constant
`MEASURES`; each result names the commit that it was measured at. An old result is no error. A
result without a commit is an error, and so is a benchmark that names no files.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path


def measured_files(script: Path) -> tuple[str, ...]:
    """Return the value of `MEASURES` in a benchmark, which is read and not run."""
    for node in ast.parse(script.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "MEASURES":
            return ast.literal_eval(node.value)
    return ()


def judged(project: Path, result: Path) -> tuple[str, str]:
    """Return "current", "stale", "unknown" or "wrong" for a result, and the reason.

    The name of a result is the name of its benchmark, optionally followed by a hyphen and text.
    """
    script = project / "scripts" / "bench" / f"{result.stem.partition('-')[0]}.py"
    files = measured_files(script) if script.is_file() else ()
    missing = [file for file in files if not (project / file).exists()]
    if not files or missing:
        wrong = f"names {', '.join(missing)}, not found" if missing else "names no files"
        return "wrong", f"MEASURES of {script.name} {wrong}: list the files that it measures"
    content = json.loads(result.read_text())
    own = content.get("commit")
    commits = {own, *(row.get("commit", own) for row in content["rows"])}
    if None in commits:
        return "wrong", "names no commit: measure it again in a git clone"
    for commit in sorted(commits):
        asked = ["git", "log", "-1", "--format=%h of %cs", f"{commit}..HEAD", "--", *files]
        done = subprocess.run(asked, cwd=project, capture_output=True, text=True, check=False)
        if done.returncode:
            return "unknown", f"cannot tell: this clone's history lacks commit {commit[:7]}"
        if changed := done.stdout.strip():
            extra = " with uncommitted changes" if content.get("uncommitted_changes") else ""
            measured = f"measured at {commit[:7]}{extra} on {content['when'][:10]}"
            return "stale", f"{measured}, code changed since, last in {changed}"
    return "current", ""


def main() -> None:
    """Print the results that are not current; exit with 1 if any of them is wrong."""
    project = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2]
    results = sorted((project / "scripts" / "bench" / "results").glob("*.json"))
    found = {result.stem: judged(project, result) for result in results}
    stale = sum(state == "stale" for state, _ in found.values())
    print(f"{stale} of {len(found)} results of benchmarks are older than the code they measure")
    for name, (state, reason) in found.items():
        if state != "current":
            print(f"  {name}: {reason}")
    raise SystemExit(any(state == "wrong" for state, _ in found.values()))


if __name__ == "__main__":
    main()
