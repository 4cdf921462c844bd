"""Notebooks as pages: all stored outputs are shown, and none of them can run as a script."""

from __future__ import annotations

import base64
import json
from html.parser import HTMLParser

import markdown
import pytest
import yaml
from notebook_pages import inert, notebook_page
from support import PROJECT

# The smallest PNG: one pixel.
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
)
HOSTILE = (
    "<script>alert(1)</script><style>p {}</style><iframe src='x.html'></iframe>"
    "<table onclick='alert(2)'><tr><td colspan=2 style='x'>held</td></tr></table>"
    "<img src=x onerror=alert(3)><a href='javascript:alert(4)'>led</a></div><svg onload=alert(5)>"
    "<form action='x'><input></form><object data='x'></object><p>unclosed"
)


class _Seen(HTMLParser):
    """The tags of a page with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data) -> None:
        self.text += data

    def names(self) -> set[str]:
        return {tag for tag, _ in self.tags}

    def attributes(self) -> set[str]:
        return {name for _, attributes in self.tags for name in attributes}


def page_of(folder, *outputs, source="shown", title="# A title"):
    """Return the page of a notebook with these outputs, and the page as HTML of the site."""
    code = {"cell_type": "code", "source": source, "outputs": list(outputs)}
    cells = [{"cell_type": "markdown", "source": [title]}, code]
    path = folder / "made.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    page = notebook_page(path)
    settings = yaml.safe_load((PROJECT / "mkdocs.yml").read_text())["markdown_extensions"]
    named = [one if isinstance(one, dict) else {one: {}} for one in settings]
    extensions = {name: options for one in named for name, options in one.items()}
    converted = markdown.markdown(
        page.text, extensions=list(extensions), extension_configs=extensions
    )
    return page, _Seen(converted)


def shown(**data):
    kinds = {kind.replace("_", "/", 1): text for kind, text in data.items()}
    return {"output_type": "display_data", "data": kinds, "metadata": {}}


def printed(text):
    return {"output_type": "stream", "name": "stdout", "text": text}


@pytest.mark.parametrize("kind", ["text_html", "text_markdown"])
def test_output_keeps_its_tables_and_nothing_that_runs(tmp_path, kind):
    _, quiet = page_of(tmp_path, shown(text_html="<table><tr><td>held</td></tr></table>"))
    _, seen = page_of(tmp_path, shown(**{kind: HOSTILE}), printed("after"))
    assert seen.names() <= quiet.names() | {"p"}
    assert seen.attributes() <= quiet.attributes() | {"colspan"}
    links = {attributes.get("href") for _, attributes in seen.tags}
    assert links <= {attributes.get("href") for _, attributes in quiet.tags}
    assert "alert" not in seen.text
    for held in ("held", "led", "unclosed", "after"):
        assert held in seen.text


@pytest.mark.parametrize(
    "text",
    [HOSTILE, f"```\n{HOSTILE}\n```", f"````\n````\n{HOSTILE}"],
    ids=["as it is", "fenced", "after fences"],
)
def test_printed_text_is_shown_to_the_letter(tmp_path, text):
    _, quiet = page_of(tmp_path, printed("quiet"))
    for output in (printed(text), shown(text_plain=text)):
        _, seen = page_of(tmp_path, output)
        assert text in seen.text
        assert seen.names() == quiet.names()


def test_code_is_shown_to_the_letter_and_folded_where_it_is_long(tmp_path):
    for lines in (1, 30):
        source = "\n".join([f"print('{HOSTILE[:20]}')  # ```", *map(str, range(1, lines))])
        _, seen = page_of(tmp_path, source=source)
        assert source in seen.text
        assert ("details" in seen.names()) == (lines == 30)
        assert "script" not in seen.names()


def test_figure_is_a_file_of_its_own_and_leads_to_all_its_pixels(tmp_path):
    output = shown(image_png=PIXEL, text_plain="<Figure>")
    output["metadata"] = {"image/png": {"width": 495}}
    page, seen = page_of(tmp_path, output, title="# What [it] found")
    assert page.figures == {"made/1.png": base64.b64decode(PIXEL)}
    [image] = [attributes for tag, attributes in seen.tags if tag == "img"]
    expected = {"src": "made/1.png", "alt": "Figure 1: What it found", "width": "495"}
    assert image == expected
    assert ("a", {"href": "made/1.png"}) in seen.tags
    assert "<Figure>" not in seen.text


def test_output_that_cannot_be_shown_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="'A title' stands an output that no page can show"):
        page_of(tmp_path, shown(application_javascript="alert(1)"))


def test_tags_are_closed_in_order_and_text_stays_text():
    assert inert("<td>a < b & c</b></td></table><tr><td>d") == (
        "<td>a &lt; b &amp; c</td><tr><td>d</td></tr>"
    )
