"""A report as one HTML page that needs no network, in light and dark, on a desk and on a phone."""

from __future__ import annotations

import re
from html import escape

from canaryd.report.document import Bullets, Document, Fold, Part, Picture, Section, Table, Text
from canaryd.report.plots import PALETTE

#: The colours of the pictures on a dark page; on a light one they are those of the files.
_DARK = {
    "paper": "#16181c",
    "ink": "#e4e6ea",
    "faint": "#7d848f",
    "tracked": "#ff8a80",
    "control": "#8ab4f8",
    "replica": "#c2c7d0",
    "third": "#7ddba3",
}

#: A cell up to this many characters is not broken into lines.
_SHORT_CELL = 24

_STYLE = """
body { margin: 0; background: var(--paper); color: var(--ink); font: 1rem/1.55 system-ui, sans-serif; }
main, header, nav, footer { max-width: 64rem; margin: 0 auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; margin: 1.5rem 0 0; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .5rem; border-bottom: 1px solid var(--faint); }
.headline { font-size: 1.2rem; font-weight: 600; border-left: .3rem solid var(--faint); padding-left: .8rem; }
nav ul { padding: 0; display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; list-style: none; }
a { color: var(--control); }
:focus-visible { outline: 3px solid var(--control); outline-offset: 2px; }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 1rem; }
figure { margin: 0; max-width: 34rem; }
figure svg { width: 100%; height: auto; display: block; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; min-width: min(100%, 28rem); margin: .6rem 0; font-size: .92rem; }
table { font-variant-numeric: tabular-nums; }
caption, figcaption { text-align: left; font-size: .92rem; padding: .3rem 0; }
caption span { position: sticky; left: 0; display: inline-block; max-width: calc(100vw - 3rem); }
th, td { text-align: left; padding: .2rem .9rem .2rem 0; border-top: 1px solid var(--faint); vertical-align: top; }
.short { white-space: nowrap; }
summary { cursor: pointer; padding: .3rem 0; }
footer { padding: 2rem 1rem; font-size: .9rem; }
@media print { details { display: block; } }
"""


def as_page(document: Document) -> str:
    """Return the report as an HTML document with everything in it; its policy lets it load nothing."""
    entries = "".join(
        f'<li><a href="#{_anchor(section)}">{escape(section.title)}</a></li>' for section in document.sections
    )
    return f"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{escape(document.title)}</title>
<style>{_colours()}{_STYLE}</style>
</head>
<body>
<header>
<h1>{escape(document.title)}</h1>
<p class="headline">{escape(document.headline)}</p>
</header>
<nav aria-label="Contents"><ul>{entries}</ul></nav>
<main>
{"".join(_section(section) for section in document.sections)}</main>
</body>
</html>
"""


def _colours() -> str:
    light, dark = ("".join(f"--{name}: {colour}; " for name, colour in colours.items()) for colours in (PALETTE, _DARK))
    return (
        f":root {{ color-scheme: light dark; {light}}}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark}}} }}\n"
    )


def _anchor(section: Section) -> str:
    return re.sub(r"\W+", "-", section.title.lower()).strip("-")


def _section(section: Section) -> str:
    """Return a section, with neighbouring pictures side by side where there is room."""
    parts, inside = [], False
    for part in section.parts:
        if isinstance(part, Picture) != inside:
            parts.append("</div>\n" if inside else '<div class="pictures">\n')
            inside = not inside
        parts.append(_part(part))
    if inside:
        parts.append("</div>\n")
    anchor = _anchor(section)
    head = f'<section aria-labelledby="{anchor}">\n<h2 id="{anchor}">{escape(section.title)}</h2>\n'
    return head + "".join(parts) + "</section>\n"


def _part(part: Part) -> str:
    if isinstance(part, Text):
        return f"<p>{escape(part.text)}</p>\n"
    if isinstance(part, Bullets):
        return "<ul>" + "".join(f"<li>{escape(entry)}</li>" for entry in part.entries) + "</ul>\n"
    if isinstance(part, Table):
        return _table(part)
    if isinstance(part, Fold):
        inner = "".join(_part(one) for one in part.parts)
        return f"<details><summary>{escape(part.summary)}</summary>\n{inner}</details>\n"
    return _figure(part)


def _table(table: Table) -> str:
    """Return a table that scrolls by itself where it is too wide, also by keyboard."""
    head = "".join(f'<th scope="col"{_breaking(cell)}>{escape(cell)}</th>' for cell in table.head)
    rows = "".join(
        f'<tr><th scope="row"{_breaking(first)}>{escape(first)}</th>'
        + "".join(f"<td{_breaking(cell)}>{escape(cell)}</td>" for cell in others)
        + "</tr>\n"
        for first, *others in table.rows
    )
    caption = escape(table.caption)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{caption}">'
        f"<table><caption><span>{caption}</span></caption>\n"
        f"<thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody></table></div>\n"
    )


def _breaking(cell: str) -> str:
    """Return the class of a cell that stays on one line."""
    return ' class="short"' if len(cell) <= _SHORT_CELL else ""


def _figure(picture: Picture) -> str:
    table = ""
    if picture.table:
        table = f"<details><summary>The figures of this picture</summary>\n{_table(picture.table)}</details>\n"
    svg = inline_svg(picture.svg, picture.name).replace(
        "<svg ", f'<svg role="img" aria-label="{escape(picture.caption)}" ', 1
    )
    return f"<figure>\n{svg}\n<figcaption>{escape(picture.caption)}</figcaption>\n{table}</figure>\n"


def inline_svg(svg: bytes, name: str) -> str:
    """Return a picture for inside a page: no prologue, the page's colours, ids that no other picture has."""
    text = svg.decode()
    text = text[text.index("<svg") :].strip()
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{name}-", text)
    for colour, value in PALETTE.items():
        text = text.replace(value, f"var(--{colour})")
    return text
