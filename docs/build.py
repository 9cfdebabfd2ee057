# SPDX-License-Identifier: Apache-2.0
"""Build the HTML documentation: the pages of this folder, and the API from the docstrings.

``make docs`` runs it; the result is build/docs/index.html. Nothing is fetched, neither here nor by
the pages that come out. Whatever pdoc warns of, and every reference of a docstring that leads
nowhere, is printed, and the exit code is then 1.
"""

from __future__ import annotations

import argparse
import html
import importlib
import inspect
import os
import pkgutil
import re
import shutil
import sys
import typing
import warnings
from pathlib import Path
from types import ModuleType

import pdoc.doc
import pdoc.render
from jinja2 import pass_context
from pdoc.render_helpers import to_html, to_markdown_with_context

ROOT = Path(__file__).resolve().parent.parent
# Modules for launch files import `launch`, which no package index has. Where it is not installed,
# this puts the stand-ins of the tests in its place.
sys.path.append(str(ROOT / "test"))
importlib.import_module("launch_recorder")

PACKAGE = "vm_dynamics"
# Pages beside those of docs/; README.md is that folder's index.
OTHER_PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "QUALITY_DECLARATION.md")
REFERENCE = re.compile(r":(?:mod|func|class|meth|attr|data|exc|obj):`([\w.]+)`")
MATH = re.compile(r"^( *)\.\. math::[ \n]+((?:.*\n?)(?:\1 +.*\n?)*)", re.M)

PAGE = """{% extends "default/frame.html.jinja2" %}
{% block title %}{{ title }} - vm_dynamics{% endblock %}
{% block nav %}
<h2><a href="index.html">vm_dynamics</a></h2>
<ul>{% for name, text in pages %}<li><a href="{{ name }}">{{ text }}</a></li>{% endfor %}</ul>
{% endblock %}
{% block content %}<main class="pdoc"><section class="module-info"><div class="docstring">
{{ body | safe }}
</div></section></main>{% endblock %}
"""


def main() -> int:
    """Build; returns the number of what is wrong, at most 1."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("output", type=Path, nargs="?", default=ROOT / "build" / "docs")
    output = parser.parse_args().output.resolve()
    shutil.rmtree(output, ignore_errors=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of libraries that are older than the interpreter
        modules = public_modules()
    problems = unresolved(modules)
    resolve_named_tuples(modules)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        api(output, modules)
        pages(output, modules)
    problems += [str(warning.message) for warning in caught]
    for problem in problems:
        print(f"warning: {problem}", file=sys.stderr)
    print(output / "index.html")
    return 1 if problems else 0


def public_modules() -> list[ModuleType]:
    """The package and all its modules, except private ones."""
    package = importlib.import_module(PACKAGE)
    names = [found.name for found in pkgutil.walk_packages(package.__path__, f"{PACKAGE}.")]
    public = [name for name in names if not re.search(r"\._", name)]
    return [package, *map(importlib.import_module, public)]


def api(output: Path, modules: list[ModuleType]) -> None:
    """Write a page for each module, and what their search needs.

    pdoc's own ``pdoc.pdoc`` would take no modules of a package that has ``__all__``.
    """
    footer = f"{PACKAGE} {modules[0].__version__}"
    pdoc.render.configure(docformat="google", show_source=False, footer_text=footer)
    pdoc.render.env.filters["to_markdown"] = formulas_as_text
    documented = {module.__name__: pdoc.doc.Module(module) for module in modules}
    for name, module in documented.items():
        path = output / f"{name.replace('.', '/')}.html"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(pdoc.render.html_module(module, documented))
    (output / "search.js").write_text(pdoc.render.search_index(documented))


def resolve_named_tuples(modules: list[ModuleType]) -> None:
    """Turn the annotations of named tuples into types.

    They are kept as text, which pdoc would look up in every module that hands such a class on.
    """
    for module in modules:
        for item in vars(module).values():
            if inspect.isclass(item) and hasattr(item, "_field_defaults"):
                item.__new__.__annotations__ = typing.get_type_hints(item)


@pass_context
def formulas_as_text(context, docstring: str) -> str:
    """Formulas are written to be read as they are: blocks of text, not mathematics to typeset."""

    def as_text(match: re.Match) -> str:
        indent, lines = match[1], inspect.cleandoc(match[2]).splitlines()
        return "\n".join(f"{indent}{line}" for line in ("", "```", *lines, "```", "", ""))

    return to_markdown_with_context(context, MATH.sub(as_text, docstring))


def unresolved(modules: list[ModuleType]) -> list[str]:
    """References in docstrings that neither the module nor the package has a name for."""
    found = []
    for module in modules:
        if module.__file__ is None:
            continue
        for name in set(REFERENCE.findall(Path(module.__file__).read_text())):
            if not (_resolves(name, module) or _resolves(name, modules[0])):
                found.append(f"{module.__name__}: nothing is called {name}")
    return sorted(found)


def _resolves(name: str, module: ModuleType) -> bool:
    kinds = [item for item in vars(module).values() if inspect.isclass(item)]
    for place in (module, *kinds):
        found = place
        for part in name.split("."):
            found = getattr(found, part, None) or getattr(found, "__annotations__", {}).get(part)
            if found is None:
                break
        else:
            return True
    try:
        pkgutil.resolve_name(name)
    except (AttributeError, ImportError, ValueError):
        return False
    return True


def pages(output: Path, modules: list[ModuleType]) -> None:
    """Write the Markdown pages and a list of modules beside the API, with an index of our own."""
    sources = [ROOT / name for name in OTHER_PAGES if (ROOT / name).is_file()]
    sources += sorted((ROOT / "docs").glob("*.md"))
    targets = {source: target_of(source) for source in sources}
    titles = {source: source.read_text().partition("\n")[0].lstrip("# ") for source in sources}
    menu = [(f"{PACKAGE}.html", "API"), ("modules.html", "API, all modules")]
    menu += [(targets[source], titles[source]) for source in sources]
    template = pdoc.render.env.from_string(PAGE)
    shutil.copytree(ROOT / "docs" / "images", output / "images")
    for source, target in targets.items():
        body = relinked(to_html(source.read_text()), source, targets, output)
        text = template.render(title=html.escape(titles[source]), pages=menu, body=body)
        (output / target).write_text(text)
    body = to_html(list_of(modules))
    (output / "modules.html").write_text(template.render(title="Modules", pages=menu, body=body))


def list_of(modules: list[ModuleType]) -> str:
    """Every module with its sentence, in Markdown."""
    lines = ["# Modules", "", "| module | what it is |", "|---|---|"]
    for module in modules:
        path = module.__name__.replace(".", "/")
        sentence = (module.__doc__ or "").partition("\n\n")[0].replace("\n", " ")
        lines.append(f"| [{module.__name__}]({path}.html) | {sentence} |")
    return "\n".join(lines)


def target_of(source: Path) -> str:
    """Name of the HTML page that a Markdown page becomes."""
    if source == ROOT / "docs" / "README.md":
        return "index.html"
    return f"{source.stem.lower()}.html"


def relinked(body: str, source: Path, targets: dict[Path, str], output: Path) -> str:
    """A page whose links lead to other HTML pages, or to the files of the source tree."""

    def replace(match: re.Match) -> str:
        attribute, link = match[1], match[2]
        path, hash_sign, anchor = link.partition("#")
        if not path or "://" in path:
            return match[0]
        file = (source.parent / path).resolve()
        if file.parent == ROOT / "docs" / "images":
            target = f"images/{file.name}"
        else:
            target = targets.get(file) or os.path.relpath(file, output)
        return f'{attribute}="{target}{hash_sign}{anchor}"'

    return re.sub(r'\b(href|src)="([^"]+)"', replace, body)


if __name__ == "__main__":
    sys.exit(main())
