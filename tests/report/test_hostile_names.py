"""Names of users on pages and on the terminal are shown, and never interpreted."""

import json
import re

import pandas as pd
import pytest

from rebench.cli.output import print_facts, print_json, print_rows
from rebench.report.blocks import (
    Callout,
    Code,
    Details,
    Figure,
    Heading,
    TableBlock,
    Text,
    as_html,
    as_markdown,
)

SCRIPT = "<script>x</script>"
LINK = "[x](javascript:x)"
CONTROLS = "\x00\x1b\x9b\u202e\u2066\u200e\u2028"


def _blocks(text, folder):
    path = folder / "name"
    path.with_name("name.svg").write_text("<svg/>")
    table = TableBlock(pd.DataFrame({text: [text]}))
    return [
        Heading(text, 1),
        Heading(text),
        Text([text]),
        Text([text, text]),
        Callout(text, text, True),
        table,
        Figure(path, text),
        Details(text, [Heading(text, 3)]),
    ]


def test_markdown_escapes_every_place_of_a_name(tmp_path):
    page = as_markdown(_blocks(f"{SCRIPT}{LINK}&amp;$x$`~", tmp_path))
    # Every mark has one backslash before it, in every place.
    escaped = r"\<script\>x\</script\>\[x\](javascript:x)&#38;amp;&#36;x&#36;\`&#126;"
    assert page.count(escaped) == page.count("javascript") == 13
    assert re.search(r"(?<!\\)<", page) is None
    assert "<script" not in as_html(_blocks(SCRIPT, tmp_path))


@pytest.mark.parametrize("text", ["# x", "###### x", "- x", "+ x", "#"])
def test_name_begins_no_block(text):
    assert as_markdown([Text([text])]) == f"\\{text}\n"


def test_negative_numbers_and_words_stay_as_they_are():
    plain = "-0.07, C# and a+b"
    assert as_markdown([Text([plain])]) == f"{plain}\n"


def test_command_with_a_fence_stays_within_its_own():
    command = "rebench report 'x\n```\n# y'"
    assert as_markdown([Code(command)]) == f"````\n{command}\n````\n"


def test_figure_s_link_is_a_place_and_nothing_else(tmp_path):
    path = tmp_path / "a b) [x](javascript:x"
    assert "/a%20b%29%20%5Bx%5D%28javascript%3Ax.png)" in as_markdown([Figure(path, "c")])


@pytest.mark.parametrize("write", [as_html, as_markdown])
def test_control_characters_are_spelt_on_pages(tmp_path, write):
    page = write([*_blocks(f"a{CONTROLS}b", tmp_path), Code(f"a{CONTROLS}b")])
    assert not set(page) & set(CONTROLS)
    assert "x1b" in page


def test_control_characters_are_escapes_in_json(capsys):
    print_json([{"name": f"a{CONTROLS}\x7fb"}])
    text = capsys.readouterr().out
    assert not set(text) & {*CONTROLS, "\x7f"}
    assert "\\u202e" in text
    assert json.loads(text) == [{"name": f"a{CONTROLS}\x7fb"}]


def test_headings_and_titles_of_a_terminal_are_spelt(capsys):
    row = {f"a{CONTROLS}": 1, "b": f"{CONTROLS}"}
    print_rows([row, row], as_json=False, title=f"t{CONTROLS}")
    print_facts(row, title=f"t{CONTROLS}")
    print_rows([], as_json=False, title=f"t{CONTROLS}")
    assert not set(capsys.readouterr().out) & set(CONTROLS)
