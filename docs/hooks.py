"""MkDocs' hook: the pages and parts of pages that are made from the code and from results.

A page says where such a part goes with a line ``<!-- made when the pages are built: NAME -->``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click
import griffe
import pyarrow as pa
import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from notebook_pages import notebook_page
from typer.cli import get_docs_for_click

from rebench.cli.app import root
from rebench.runs import SweepSpec
from rebench.tables.columns import BENCHMARK_CURVES, COLUMNS, RUN_CURVES

__all__ = ["on_files", "on_page_content", "on_page_markdown", "stored"]

PROJECT: Final = Path(__file__).parent.parent
# Folders of result pages and their figures.
RESULTS: Final = (PROJECT / "notebooks" / "05_surface", PROJECT / "notebooks")
NOTEBOOKS: Final = PROJECT / "notebooks"
_NOTEBOOK: Final = re.compile(r"`(\w+)\.ipynb`")
_CELL: Final = re.compile(r"<td>([^<]+)</td>")
# Characters of a table cell. Shorter cells are names or numbers and are never broken; longer cells
# are sentences and get a wide column.
_SHORT, _LONG = 20, 40
# Every command has this option, some have no other.
# An argument with the type of its value.
_ARGUMENT: Final = re.compile(r"^(\* `[^-`]+?) <[^`]*>`", re.MULTILINE)
_HELP: Final = re.compile(r"(?:\*\*Options\*\*:\n\n)?\* `--help`: [^\n]*\n(?=\n|$)")
_MADE: Final = re.compile(r"^<!-- made when the pages are built: (\S+) -->$", flags=re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of results and of notebooks, with their figures."""
    for folder in RESULTS:
        for page in folder.glob("*.md"):
            figures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", page.read_text())
            others = [str(path.relative_to(folder)) for path in folder.glob("figures/*.png")]
            for name in dict.fromkeys((page.name, *figures, *others)):
                files.append(
                    File.generated(config, f"results/{name}", abs_src_path=str(folder / name))
                )
    for notebook in sorted(NOTEBOOKS.glob("*.ipynb")):
        for name, content in _pages_of(notebook).items():
            files.append(File.generated(config, f"results/notebooks/{name}", content=content))
    return files


def _pages_of(notebook: Path) -> dict[str, str | bytes]:
    page = notebook_page(notebook)
    return {f"{notebook.stem}.md": page.text, notebook.name: notebook.read_bytes(), **page.figures}


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Insert generated parts; link the names of notebooks to their pages."""
    if page.file.src_uri == "notebooks.md":
        markdown = _NOTEBOOK.sub(r"[`\1.ipynb`](results/notebooks/\1.md)", markdown)
    return _MADE.sub(lambda found: MAKERS[found[1]](), markdown)


def on_page_content(html: str, **_: object) -> str:
    """Say of every cell of a table whether it is to be broken into lines."""
    return _CELL.sub(_marked, html)


def _marked(cell: re.Match[str]) -> str:
    length = len(cell[1].strip())
    kind = "short" if length <= _SHORT else "long" if length > _LONG else "usual"
    return f'<td class="{kind}">{cell[1]}</td>'


def commands() -> str:
    """Every command with its arguments and options."""
    group = typer.main.get_command(root)
    top = group.context_class(group, info_name="rebench")
    texts = []
    for name in group.list_commands(top):
        _, command, _ = group.resolve_command(top, [name])
        context = command.context_class(command, info_name=name, parent=top)
        _say_in_full(command)
        text = get_docs_for_click(obj=command, ctx=context, indent=1, name=f"rebench {name}")
        text = _ARGUMENT.sub(r"\1`", text.replace("```console\n$ ", "```text\n"))
        texts.append(_HELP.sub("", text))
    return "\n".join(texts)


def _say_in_full(command: click.Command) -> None:
    """Give the commands of a group a whole sentence each in its list."""
    for below in getattr(command, "commands", {}).values():
        below.short_help = (below.help or "").partition("\n\n")[0]
        _say_in_full(below)


def keys() -> str:
    """A table of keys for every table of a sweep's file."""
    schema = SweepSpec.model_json_schema()
    modules = griffe.load("rebench.runs", search_paths=[str(PROJECT)]).modules.values()
    classes = {name: one for module in modules for name, one in module.classes.items()}
    return "\n".join(_keys(schema, schema["$defs"], classes, "The sweep itself")).strip()


def columns() -> str:
    """The columns of all tables, and who holds each."""
    rows = [
        f"| `{one.name}` | {_arrow(one.kind)} | {one.held_by} | {one.meaning} |" for one in COLUMNS
    ]
    return "\n".join(["| column | type | held by | meaning |", "|---|---|---|---|", *rows])


def curves(schema: Mapping[str, pa.DataType]) -> str:
    """The columns of one table of curves."""
    rows = [f"| `{name}` | {_arrow(kind)} |" for name, kind in schema.items()]
    return "\n".join(["| column | type |", "|---|---|", *rows])


def whole_space() -> str:
    """Measurements of the launcher at the size of the space."""
    kept = PROJECT / "scripts" / "bench" / "results" / "whole_space.json"
    measured = json.loads(kept.read_text())
    rows = [
        f"| {row['what']} | {_measured(row['is'])} {row.get('unit', '')} | {_peak(row)} |"
        for row in measured["rows"]
    ]
    head = f"| {measured['cells']:,} cells | | most memory |"
    return "\n".join([head, "|---|---|---|", *rows])


def _measured(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _peak(row: Mapping[str, Any]) -> str:
    return f"{row['peak GB']:.2f} GB" if "peak GB" in row else ""


MAKERS: Final[Mapping[str, Callable[[], str]]] = {
    "commands": commands,
    "whole-space": whole_space,
}


def stored() -> dict[str, list[str]]:
    """Return the parts of reference pages that are in the repository, for readers of a clone."""
    tables = [columns(), curves(RUN_CURVES), curves(BENCHMARK_CURVES)]
    return {"sweep-file.md": [keys()], "columns.md": tables}


def _keys(
    model: Mapping[str, Any],
    models: Mapping[str, Any],
    classes: Mapping[str, griffe.Class],
    title: str,
    place: str = "",
) -> Iterator[str]:
    described = classes[model["title"]]
    yield f"\n## {title}\n\n{_text_of(described)}\n"
    yield "| key | value | default | meaning |\n|---|---|---|---|"
    inner = []
    for name, field in model["properties"].items():
        below = _tables_of(field)
        where = place + name
        inner += [(models[one], where, field.get("type") == "array") for one in below]
        required = name in model.get("required", ())
        default = "required" if required else "see there" if below else _default(field)
        meaning = " ".join(_text_of(described.all_members[name]).split())
        yield f"| `{name}` | {_kind(field)} | {default} | {meaning} |"
    for below, where, several in inner:
        title = f"`[[{where}]]`" if several else f"`[{where}]`"
        yield from _keys(below, models, classes, title, f"{where}.")


def _text_of(described: griffe.Object | griffe.Alias) -> str:
    if described.docstring is None:
        raise ValueError(f"{described.path} has no docstring: its line of the page would be empty")
    return described.docstring.value


def _tables_of(field: Mapping[str, Any]) -> list[str]:
    """The model that a field holds, or a list or table of, by its name."""
    found = [field, field.get("items", {}), *field.get("anyOf", [])]
    return [one["$ref"].rpartition("/")[2] for one in found if "$ref" in one]


_KINDS: Final = {
    "boolean": "`true` or `false`",
    "integer": "whole number",
    "number": "number",
    "object": "table",
    "string": "text",
}
_BOUNDS: Final = {
    "minimum": "at least",
    "exclusiveMinimum": "above",
    "maximum": "at most",
    "exclusiveMaximum": "below",
}


def _kind(field: Mapping[str, Any]) -> str:
    if "enum" in field:
        return " or ".join(f'`"{one}"`' for one in field["enum"])
    if "anyOf" in field:
        return " or ".join(_kind(one) for one in field["anyOf"] if one.get("type") != "null")
    if "pattern" in field:
        return f"text like `{field['pattern']}`".replace("|", "\\|")
    if "items" in field:
        if _tables_of(field) == ["RecipeSpec"]:  # its reader takes texts, too
            return "list of texts or tables"
        one, comma, bounds = _kind(field["items"]).partition(",")
        return f"list of {one}s{comma}{bounds}"
    text = _KINDS[field.get("type", "object")]
    bounds = [f"{word} {field[name]:,}" for name, word in _BOUNDS.items() if name in field]
    return ", ".join([text, *bounds])


def _default(field: Mapping[str, Any]) -> str:
    default = field.get("default")
    return "none" if default in (None, [], {}) else f"`{json.dumps(default)}`"


def _arrow(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"list of {_arrow(kind.value_type)}s"
    if pa.types.is_floating(kind):
        return "number"
    return "whole number" if pa.types.is_integer(kind) else "text"
