"""A page of the book's interactive demos alone, and how tests drive it."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[1]
THEMES = {"light": ("#fff", "#222832", "#c9c9c9"), "dark": ("#14181e", "#ced6dd", "#48566b")}


def load_extension():
    """Import the Sphinx extension of the book's interactive demos."""
    path = ROOT / "book" / "_ext" / "fedstas_explorer.py"
    spec = importlib.util.spec_from_file_location("fedstas_explorer", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_page(folder: Path, parts, data, theme="light", width=1000, scripts=True, end="") -> str:
    """Write a page of some demos in a theme, with the HTML `end` after them, and return its address."""
    extension = load_extension()
    style = (ROOT / "book" / "_static" / "book.css").read_text(encoding="utf-8")
    ground, ink, border = THEMES[theme]
    body = "".join(
        f'<figure id="fig-explorer-{part}"><img alt=""></figure>{extension.container(part)}'
        for part in parts
    )
    script = extension.CHECKED + extension.script(data, parts) if scripts else ""
    page = folder / "page.html"
    page.write_text(
        f'<!doctype html><html data-theme="{theme}"><meta charset="utf-8"><style>{style}'
        f":root {{--pst-color-text-base: {ink}; --pst-color-border: {border}; --pst-color-background: {ground}}}"
        f"body {{background: {ground}; color: {ink}; margin: 0 12px; font-family: sans-serif}}"
        f'</style><body><div id="main" style="max-width: {width - 24}px">{body}{script}</div>{end}</body></html>',
        encoding="utf-8",
    )
    return page.as_uri()
