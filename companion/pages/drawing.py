"""One round of FedSTaS as a drawing: `python -m companion.pages.drawing` writes it to book/_static.

Eight stations of a loop, on a running example of twelve clients in three strata and five draws. The
page's two drawings (wide, and upright for phones) take their colours from the page, and each station
links to `map:TARGET`, which the directive `round` resolves; the README's two have fixed colours.
"""

from __future__ import annotations

import sys
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from companion.runs.atomic import write
from fedstas.compression import squeeze

FOLDER = Path(__file__).parents[2] / "book" / "_static"
COUNTS, SPREADS, ALLOCATION = (6, 4, 2), (1.0, 1.0, 0.5), (2, 2, 1)  # of the strata ●, ■, ▲
WEIGHTS = ("¼", "¼", "⅙", "⅙", "⅙")  # N_h / (N m_h) of the five drawn
LEVELS = 9
GRADIENT = (0.2, 1.3, -0.6, 1.7, 2.9, -1.5, -0.2, 0.6, -2.7, 0.9, -1.0, 0.0, 2.4, -1.9, 0.4, 3.6)


class Station(NamedTuple):
    """A step of the round: its title, two lines, and the link target of the section that treats it."""

    title: str
    lines: tuple[str, str]
    target: str


STATIONS = (
    Station("Clients", ("Each holds data of few", "classes, much or little."), "clients"),
    Station("Nine levels", ("All send a gradient, its", "entries at nine levels."), "squeeze"),
    Station("Strata", ("k-means groups those", "with similar gradients."), "strata"),
    Station("Allocation", ("Large and mixed strata", "get more (Neyman)."), "allocation"),
    Station("Draws", ("The longer a gradient,", "the likelier its client."), "draws"),
    Station("Data", ("Private sizes give one", "rate for all examples."), "data"),
    Station("Weights", ("as written: Nₕ / (N mₕ)", "corrected: ωₖ / (mₕ pₖ)"), "weights"),
    Station("New model", ("The weighted sum starts", "the next round."), "model"),
)
TITLE = "One round of FedSTaS"
WORDS = (
    "A loop of eight stations. Twelve clients hold data of their own. All send a gradient whose entries are "
    "squeezed to nine levels. k-means of these groups the clients into strata of six, four and two. Neyman "
    "allocation gives them two, two and one of five draws. Within a stratum, a client is drawn with a chance "
    "in proportion to the length of its gradient. The drawn ones report their sizes privately; from these "
    "the server makes one rate, at which each of their examples is kept. They train, and the server adds "
    "their models with the weights one quarter, one quarter, and three times one sixth. The sum is the new "
    "model, with which the next round begins."
)
PAGE = {
    "ink": "currentColor",
    "title": "var(--pst-color-link, currentColor)",
    "written": "var(--as-written)",
    "corrected": "var(--as-it-should-be-ink)",
}
LIGHT = {"ink": "#1f2328", "title": "#1f2328", "written": "#0072b2", "corrected": "#00704f"}
DARK = {"ink": "#e6edf3", "title": "#e6edf3", "written": "#56b4e9", "corrected": "#2fc79a"}


def restored(entries=GRADIENT, levels: int = LEVELS) -> list[float]:
    """Return the gradient's entries after compression to `levels` values, as the package restores them."""
    (gradient,) = squeeze(np.array(entries, dtype=np.float32), levels).restore()
    return gradient.astype(float).tolist()


def _mark(stratum: int, x: float, y: float, r: float, style: str = "") -> str:
    """Return a client: a disc, a square or a triangle, by its stratum."""
    style = style or 'fill="none" stroke="INK" stroke-width="1.4"'
    if stratum == 0:
        return f'<circle cx="{x:g}" cy="{y:g}" r="{r:g}" {style}/>'
    if stratum == 1:
        return f'<rect x="{x - r:g}" y="{y - r:g}" width="{2 * r:g}" height="{2 * r:g}" {style}/>'
    return f'<path d="M{x:g} {y - 1.1 * r:g}l{1.15 * r:g} {2 * r:g}h{-2.3 * r:g}z" {style}/>'


FULL = 'fill="INK"'
POSITIONS = (  # where the twelve clients lie, stratum by stratum
    ((18, 14), (34, 10), (26, 28), (43, 25), (14, 38), (35, 43)),
    ((86, 12), (104, 16), (93, 30), (112, 33)),
    ((74, 54), (94, 55)),
)
NORMS = (26, 15, 36, 11, 22, 30)  # of the six of the first stratum
DRAWN_CLIENTS = (2, 5)


def _clients() -> str:
    """Draw twelve clients, each with a pile of examples in shades of its classes."""
    parts, k = [], 0
    for row in range(2):
        for column in range(6):
            x, y = 8 + 20 * column, 30 + 33 * row
            piles = ((4, 0.85), (8 + 5 * (k % 3), 0.25)) if k % 2 else ((10 + 4 * (k % 4), 0.5),)
            for height, shade in piles:
                parts.append(
                    f'<rect x="{x}" y="{y - height}" width="13" height="{height}" '
                    f'fill="INK" fill-opacity="{shade}"/>'
                )
                y -= height
            k += 1
    return "".join(parts)


def _squeeze() -> str:
    """Draw a gradient's entries as rings, and as dots on the nearest of nine levels."""
    restored_entries = restored()
    height = lambda v: 58 - 52 * (v + 2.7) / 6.3  # noqa: E731 (the extremes of GRADIENT)
    lines = "".join(
        f'<line x1="4" x2="126" y1="{height(v):.1f}" y2="{height(v):.1f}" stroke="INK" '
        'stroke-width="0.8" stroke-opacity="0.55"/>'
        for v in sorted(set(restored_entries))
    )
    dots = []
    for i, (v, z) in enumerate(zip(GRADIENT, restored_entries, strict=True)):
        x = 9 + 7.5 * i
        dots.append(
            f'<circle cx="{x:g}" cy="{height(v):.1f}" r="2.2" fill="none" stroke="INK" stroke-opacity="0.6"/>'
            f'<circle cx="{x:g}" cy="{height(z):.1f}" r="2.4" fill="INK"/>'
        )
    return lines + "".join(dots)


def _strata() -> str:
    """Draw the twelve clients, with a dashed line around each stratum."""
    rings = "".join(
        f'<ellipse cx="{x}" cy="{y}" rx="{a}" ry="{b}" fill="none" stroke="INK" stroke-dasharray="3 3"/>'
        for x, y, a, b in ((29, 26, 28, 26), (99, 23, 27, 21), (84, 54, 22, 10))
    )
    return rings + "".join(_mark(h, x, y, 4.2) for h, row in enumerate(POSITIONS) for x, y in row)


def _allocation() -> str:
    """Draw a row for each stratum: its clients, and a chair for each of its draws."""
    parts = []
    for h, (count, draws) in enumerate(zip(COUNTS, ALLOCATION, strict=True)):
        y = 11 + 21 * h
        parts += [_mark(h, 7 + 12 * k, y, 4.2) for k in range(count)]
        parts.append(f'<path d="M80 {y}h10m-4 -3l4 3l-4 3" fill="none" stroke="INK"/>')
        for k in range(draws):
            x = 98 + 16 * k
            parts.append(
                f'<path d="M{x} {y - 8}v16m0 -7h9v7" fill="none" stroke="INK" stroke-width="1.8"/>'
            )
    return "".join(parts)


def _draws() -> str:
    """Draw the norms of the first stratum's clients as bars, those of the two drawn clients filled."""
    parts = ['<line x1="4" x2="126" y1="46" y2="46" stroke="INK"/>']
    for k, norm in enumerate(NORMS):
        x, full = 8 + 20 * k, k in DRAWN_CLIENTS
        style = FULL if full else 'fill="INK" fill-opacity="0.2"'
        parts.append(f'<rect x="{x}" y="{46 - norm}" width="14" height="{norm}" {style}/>')
        parts.append(_mark(0, x + 7, 56, 4.2, FULL if full else ""))
    return "".join(parts)


def _data() -> str:
    """Draw the examples of two drawn clients, the kept quarter of each filled."""
    parts = []
    for left, columns in ((6, 9), (82, 5)):
        for i in range(5 * columns):
            x, y = left + 7 * (i % columns), 8 + 12 * (i // columns)
            is_kept = (7 * i + left) % 4 == 0
            parts.append(
                f'<circle cx="{x}" cy="{y}" r="2.7" fill="INK" fill-opacity="{1 if is_kept else 0.2}"/>'
            )
    return "".join(parts)


def _weights() -> str:
    """Draw the five drawn clients, each with its weight as the paper prints it."""
    parts, k = [], 0
    for h, draws in enumerate(ALLOCATION):
        for _ in range(draws):
            x = 14 + 26 * k
            parts.append(_mark(h, x, 18, 6, FULL))
            parts.append(
                f'<text x="{x}" y="49" text-anchor="middle" font-size="17" fill="WRITTEN">{WEIGHTS[k]}</text>'
            )
            if k:
                parts.append(
                    f'<text x="{x - 13}" y="47" text-anchor="middle" font-size="12" fill="INK">+</text>'
                )
            k += 1
    return "".join(parts)


def _model() -> str:
    """Draw a small network."""
    layers = ((30, (12, 32, 52)), (65, (7, 24, 40, 57)), (100, (20, 44)))
    lines = [
        f'<line x1="{a}" y1="{y}" x2="{b}" y2="{z}" stroke="INK" stroke-opacity="0.45"/>'
        for (a, ys), (b, zs) in pairwise(layers)
        for y in ys
        for z in zs
    ]
    dots = [f'<circle cx="{x}" cy="{y}" r="5" fill="INK"/>' for x, ys in layers for y in ys]
    return "".join(lines + dots)


PICTURES = (_clients, _squeeze, _strata, _allocation, _draws, _data, _weights, _model)


def _station(k: int, x: float, y: float, upright: bool, linked: bool) -> str:
    """Return station k with its upper left corner at x, y."""
    station, wide, tall = STATIONS[k], *((332, 84) if upright else (171, 150))
    left, top = (150, 27) if upright else (11, 98)  # of the words
    picture = (8, 10) if upright else (20, 12)
    weights = station.target == "weights"
    words = [
        f'<text x="{left}" y="{top}" font-size="15" font-weight="700" fill="TITLE">'
        f"{k + 1}. {escape(station.title)}</text>"
    ]
    for i, line in enumerate(station.lines):
        colour = ("WRITTEN", "CORRECTED")[i] if weights else "INK"
        words.append(
            f'<text x="{left}" y="{top + 20 + 17 * i}" font-size="12" fill="{colour}">'
            f"{escape(line)}</text>"
        )
    body = (
        f'<rect width="{wide}" height="{tall}" rx="8" fill="INK" fill-opacity="0.04" '
        'stroke="INK" stroke-opacity="0.35"/>'
        f'<g transform="translate({picture[0]} {picture[1]})" aria-hidden="true">{PICTURES[k]()}</g>'
        + "".join(words)
    )
    if linked:
        label = escape(f"{k + 1}. {station.title}: {' '.join(station.lines)}", quote=True)
        body = f'<a href="map:{station.target}" aria-label="{label}">{body}</a>'
    return f'<g transform="translate({x:g} {y:g})">{body}</g>'


def _arrow(x: float, y: float, dx: float, dy: float) -> str:
    """Return an arrow from x, y by dx, dy, one of them 0."""
    sx, sy = (dx > 0) - (dx < 0), (dy > 0) - (dy < 0)
    tip = f"M{x + dx - 5 * sx - 4 * sy:g} {y + dy - 5 * sy - 4 * sx:g}L{x + dx:g} {y + dy:g}"
    tip += f"L{x + dx - 5 * sx + 4 * sy:g} {y + dy - 5 * sy + 4 * sx:g}"
    return (
        f'<path d="M{x:g} {y:g}l{dx:g} {dy:g}{tip}" fill="none" stroke="INK" stroke-width="1.5"/>'
    )


def svg(upright: bool = False, colours: dict[str, str] = PAGE, linked: bool = True) -> str:
    """Return the drawing as a document of its own: two rows that make a loop, or one upright column."""
    corners, arrows = [], []
    if upright:
        wide, tall, step = 346, 8 * 98 + 6, 98
        corners = [(7, 4 + step * k) for k in range(8)]
        arrows = [_arrow(173, 4 + 84 + step * k, 0, 13) for k in range(7)]
        caption = f'<text x="173" y="{tall - 1}" text-anchor="middle" font-size="12" fill="INK">and again from 1</text>'
        tall += 6
    else:
        wide, tall, step = 744, 338, 188
        row = [4 + step * k for k in range(4)]
        corners = [(x, 4) for x in row] + [(x, 184) for x in reversed(row)]
        arrows = [_arrow(x + 172, 79, 15, 0) for x in row[:3]] + [_arrow(row[3] + 85, 155, 0, 28)]
        arrows += [_arrow(x - 1, 259, -15, 0) for x in row[:0:-1]]
        arrows.append(_arrow(row[0] + 85, 183, 0, -28))
        caption = f'<text x="{row[0] + 97}" y="174" font-size="12" fill="INK">next round</text>'
    name = "round-upright" if upright else "round-wide"
    body = "".join(_station(k, *corner, upright, linked) for k, corner in enumerate(corners))
    text = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="round {name}" viewBox="0 0 {wide} {tall}" '
        f'font-family="FONT" role="ROLE" aria-labelledby="{name}-title {name}-words">'
        f'<title id="{name}-title">{TITLE}</title><desc id="{name}-words">{WORDS}</desc>'
        f"{''.join(arrows)}{caption}{body}</svg>\n"
    )
    standalone = colours is not PAGE
    fonts = "-apple-system, Segoe UI, Helvetica, Arial, sans-serif" if standalone else "inherit"
    text = text.replace("FONT", fonts).replace("ROLE", "group" if linked else "img")
    for key, value in colours.items():
        text = text.replace(f'"{key.upper()}"', f'"{value}"')
    return text


def drawings() -> dict[str, str]:
    """Return every file of the drawing, by its name."""
    return {
        "round.svg": svg(),
        "round-upright.svg": svg(upright=True),
        "round-light.svg": svg(colours=LIGHT, linked=False),
        "round-dark.svg": svg(colours=DARK, linked=False),
    }


def make(folder: str | Path = FOLDER) -> None:
    """Write the drawings."""
    for name, text in drawings().items():
        write(Path(folder) / name, lambda path, text=text: path.write_text(text, encoding="utf-8"))


if __name__ == "__main__":
    make(*sys.argv[1:])
