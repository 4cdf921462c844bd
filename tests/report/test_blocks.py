"""Blocks of a page, as HTML and as Markdown."""

from __future__ import annotations

import re

import pandas as pd
import pytest

from rebench.report.blocks import (
    Block,
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

NAN = float("nan")
TABLE = pd.DataFrame({"a_b": [1.23456, NAN, 0.0004, 0.0005], "why": ["x", None, "y z", 7]})
ROWS = [("1.235", "x"), ("\N{EN DASH}", "\N{EN DASH}"), ("< 0.001", "y z"), ("0.001", "7")]


@pytest.mark.parametrize(
    ("block", "in_html", "in_markdown"),
    [
        (Heading("Top", 1), "<h1>Top</h1>", "# Top"),
        (Heading("One, two!"), '<h2 id="one--two">One, two!</h2>', "## One, two!"),
        (Heading("Deep", 3), "<h3>Deep</h3>", "### Deep"),
        (Text(["a\n  b"]), "<p>a b</p>", "a b"),
        (Text(["a", "b  c"]), "<ul><li>a</li><li>b c</li></ul>", "- a\n- b c"),
        (
            Callout("who", "what", changed=True),
            '<div class="callout changed"><b>who</b><span>what</span></div>',
            "> **who**: what",
        ),
        (
            Callout("who", "what", changed=False),
            '<div class="callout still"><b>who</b><span>what</span></div>',
            "> **who**: what",
        ),
        (Code("a\n b"), "<pre><code>a\n b</code></pre>", "```\na\n b\n```"),
        (
            Details("more", [Text(["a"]), Code("b")]),
            "<details><summary>more</summary><p>a</p><pre><code>b</code></pre></details>",
            "**more**\n\na\n\n```\nb\n```",
        ),
        (
            TableBlock(TABLE),
            '<div class="scroll"><table><thead><tr><th class=n>a b</th><th>why</th></tr></thead>'
            "<tbody>"
            + "".join(f"<tr><td class=n>{a}</td><td>{b}</td></tr>" for a, b in ROWS).replace(
                "< 0.001", "&lt; 0.001"
            )
            + "</tbody></table></div>",
            "| a b | why |\n|---|---|\n"
            + "\n".join(f"| {a} | {b} |" for a, b in ROWS).replace("<", "\\<"),
        ),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_block_is_written_in_both_languages(block: Block, in_html: str, in_markdown: str):
    blocks = [Heading("The page", 1), block, Text(["end"])]
    [body] = re.findall("<h1>The page</h1>\n(.*)\n<p>end</p>", as_html(blocks), re.DOTALL)
    assert body == in_html
    assert as_markdown(blocks) == f"# The page\n\n{in_markdown}\n\nend\n"


def test_figure_is_inside_the_page_and_beside_the_markdown(tmp_path):
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "01-x.svg").write_text("<svg/>")
    blocks = [Heading("x"), Figure(tmp_path / "figures" / "01-x", "what it shows")]
    image = '<img alt="what it shows" src="data:image/svg+xml;base64,PHN2Zy8+">'
    assert f"<figure>{image}<figcaption>what it shows</figcaption></figure>" in as_html(blocks)
    assert as_markdown(blocks).endswith("![what it shows](figures/01-x.png)\n\n*what it shows*\n")


def test_page_has_the_title_of_its_first_heading_and_links_to_its_parts():
    page = as_html([Heading("Name", 1), Heading("Part one"), Heading("Deep", 3), Heading("Two")])
    assert "<title>Name</title>" in page
    links = '<a href="#part-one">Part one</a><a href="#two">Two</a>'
    assert re.findall("<nav>(.*?)</nav>", page) == [links]
    assert "<nav>" not in as_html([Heading("Name", 1), Heading("Deep", 3)])


@pytest.mark.parametrize(
    ("value", "digits", "shown"),
    [(0.26, 1, "0.3"), (0.06, 1, "0.1"), (0.04, 1, "< 0.1"), (-0.04, 1, "0.0"), (5.0, 0, "5"),
     (float("inf"), 3, "inf"), (True, 3, "True"), (3, 1, "3"), (0.0, 2, "0.00")],
)  # fmt: skip
def test_value_of_a_table_has_its_digits(value: object, digits: int, shown: str):
    assert TableBlock(pd.DataFrame({"x": [value]}, dtype=object), digits).rows() == [["x"], [shown]]


def test_columns_of_numbers_as_texts_are_aligned_on_the_right():
    frame = pd.DataFrame({"p": ["< 0.001", "0.012", "-"], "95 % CI": ["0.10 to 0.20"] * 3})
    page = as_html([Heading("x", 1), TableBlock(frame)])
    assert "<tr><td class=n>&lt; 0.001</td><td>0.10 to 0.20</td></tr>" in page
