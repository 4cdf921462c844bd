"""`rebench docs` names a page that is there, and opens it only when asked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from support import PROJECT


def _docs(*arguments: str, browser: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rebench", "docs", *arguments],
        env={**os.environ, "PYTHONPATH": str(PROJECT), "BROWSER": browser},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_page_is_printed_and_nothing_is_opened(tmp_path):
    opened = tmp_path / "opened"
    done = _docs(browser=f"touch {opened}")
    page = Path(done.stdout.strip())
    assert done.returncode == 0
    assert page in (PROJECT / "site" / "index.html", PROJECT / "docs" / "index.md")
    assert "rebench" in page.read_text()
    assert not opened.exists()


def test_page_is_opened_when_asked(tmp_path):
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {tmp_path}/opened\n')
    browser.chmod(0o755)
    done = _docs("--open", browser=str(browser))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "opened").read_text() == Path(done.stdout.strip()).as_uri()
