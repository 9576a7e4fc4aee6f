"""Execute chapters with parameters drawn at random, and look at what their pages then say.

`python -m companion.pages.random_parameters --sets 40 --seed 1 --to FOLDER` (or `make parameters`), a line a set. What a
reader would stumble on is a fault and makes the exit code 1: a cell that fails, `nan`, a range between equal numbers, a
plural of one (`live_text.FAULTS`), a parameter that is printed with another value than this run's. Each page is written as
text to FOLDER, its numbers in their sentences, with what it says of itself on top, to be read by a person: whether a
sentence is true is more than a pattern can tell.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from companion.pages import chapters, glued, live_text, markdown, myst, parameters
from fedstas.errors import InputError

CHOICES: dict[str, tuple] = {  # what a reader may try, small and extreme values among them
    "seed": (1, 2, 3, 5, 7, 11),
    "clients": (6, 8, 12, 15, 20, 40),
    "clients_per_round": (2, 3, 4, 8),
    "strata": (2, 3, 4, 8),
    "levels": (2, 3, 4, 16),
    "rounds": (1, 2, 5, 10),
    "concentration": (0.03, 0.3, 1.0, 5.0, 10.0),
    "n_star": (20, 50, 200, 1000),
    "size_cap": (10, 50, 300, 601),
    "epsilon": (1.0, 2.0, 5.0, 8.0),
    "repeats": (2, 3),
    "seeds": (2, 4),
}
SLOW = ("05_experiments", "06_clustered_sampling", "07_fedsampling")
# Chapters that show recorded runs and have no parameter but a seed.
RECORDED_ALONE = ("10_which_design", "10c_first_comparison")


def draw(seed: int, place: int, stems: list[str]) -> tuple[str, dict[str, Any]]:
    """Draw a chapter, each in its turn, and values of two to four of its parameters that it accepts together."""
    rng = random.Random(f"{seed}/{place}")
    order = random.Random(seed).sample(stems, len(stems))
    stem = order[place % len(order)]
    names = [name for name in parameters.declared(stem) if name in CHOICES]
    for _ in range(1000):
        chosen = rng.sample(names, min(len(names), rng.randint(2, 4)))
        values = {name: rng.choice(CHOICES[name]) for name in chosen}
        try:
            parameters.settings(stem, values)
        except InputError:
            continue
        return stem, values
    raise InputError(f"chapter {stem} accepts none of a thousand sets of parameters: see CHOICES")


def as_read(page: Path):
    """Return an executed page as its reader sees it: a notebook of plain Markdown with numbers in their sentences."""
    import nbformat

    nb = nbformat.read(page, as_version=4)
    labels = myst.reference_texts(b for p in myst.parts(nb.cells) for b in p.blocks)
    plain = markdown.PlainMarkdown(glued.glued_values(page), labels)
    for cell in nb.cells:
        if cell.cell_type == "markdown":
            cell.source = plain.text(cell.source.replace("{.not-here}", " **(not here)**"))
        else:
            # Figures are in glued outputs.
            cell.source = cell.source.replace("glue_figure(", "glue(")
            cell.outputs = [o for o in cell.outputs if "scrapbook" not in o.get("metadata", {})]
            for output in cell.outputs:
                if text := output.get("data", {}).get("text/markdown"):
                    output["data"]["text/markdown"] = plain.text("".join(text))
    missing = [name for name, data in glued.glued_outputs(page).items() if not data]
    assert not missing, missing
    return nb


def text_of(nb) -> str:
    """Return all that a notebook shows as text."""
    return "\n\n".join(
        text.strip() for text in live_text.shown_texts(nb, whole=True) if text.strip()
    )


OWN_VALUE = ("seed", "seeds", "repeats")  # a line that names a seed means one of several
ELSEWHERE = re.compile(r"preprint|journal|paper")  # a text that says whose other value it prints


def find_other_values(nb, values: dict[str, Any]) -> list[str]:
    """Return what cells print of a parameter of this run with another value, unless they say whose it is."""
    faults = []
    printed = [o.get("text", "") for c in nb.cells for o in c.get("outputs", [])]
    for text in filter(None, map("".join, printed)):
        if ELSEWHERE.search(text):
            continue
        for name in set(values) - set(OWN_VALUE):
            begin = r"(?:^|[,;(]\s*|\s{2,})"  # "ten different clients: 6.7" is no parameter
            words = rf"{begin}({name.replace('_', '[ _]')}\b\s*[=:]?\s*(\d+(?:\.\d+)?))(?![\d.,/])"
            for match in re.finditer(words, text, re.MULTILINE):
                if float(match[2]) != float(values[name]):
                    faults.append(f"another {name} than this run's {values[name]}: {match[1]}")
    return faults


def try_set(stem: str, values: dict[str, Any], to: Path | None) -> list[str]:
    """Execute a chapter with these parameters and return its faults; write its text to a folder."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / f"{stem}.ipynb"
        try:
            chapters.run(stem, values, output=page, progress=False)
        except (InputError, chapters.ChapterError) as error:
            return [str(error)]
        nb = as_read(page)
    if to is not None:
        to.mkdir(parents=True, exist_ok=True)
        name = "-".join([stem.partition("_")[0], *(f"{k}={v}" for k, v in values.items())])
        (to / f"{name}.txt").write_text(text_of(nb) + "\n", encoding="utf-8")
    return live_text.find_faults(nb) + find_other_values(nb, values)


def main(arguments: list[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="python -m companion.pages.random_parameters", description=__doc__
    )
    parser.add_argument("--sets", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0, help="of the sets")
    parser.add_argument("--to", type=Path, help="folder for the texts")
    parser.add_argument("--fast", action="store_true", help="without the three slow chapters")
    options = parser.parse_args(arguments)
    stems = [
        s
        for s in parameters.names()
        if not (options.fast and s in SLOW) and s not in RECORDED_ALONE
    ]
    failed = 0
    for place in range(options.sets):
        stem, values = draw(options.seed, place, stems)
        began = time.monotonic()
        faults = try_set(stem, values, options.to)
        failed += bool(faults)
        print(f"{chapters.command(stem, values)}   # {time.monotonic() - began:.0f} s", flush=True)
        for fault in faults:
            print(f"    {fault}", flush=True)
    print(f"{options.sets} sets of parameters, {failed} with faults")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
