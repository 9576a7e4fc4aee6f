"""One word for one thing: voices, partitions, final accuracy; a gain with its price; numbers in alternative texts."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from companion.claims.evidence.experiments import within_one_more
from companion.pages import ch05, markdown
from companion.runs import tables

ROOT = Path(__file__).parents[1]
PAGES = [*sorted((ROOT / "book").rglob("*.md")), *sorted((ROOT / "notebooks").glob("*.py"))]
PAGES = [
    p
    for p in (*PAGES, ROOT / "README.md", ROOT / "companion/pages/plots.py")
    if "chapters" not in p.parts
]
PRINTED = {"fedsts": 55.0, "fedstas": 56.0, "fedstas-dp": 54.67}  # Fig. 3, top


@pytest.fixture
def frame() -> pd.DataFrame:
    """Two methods, two seeds, 20 rounds; the other costs twice the bytes and 1.5 times the examples."""
    rows = []
    for seed in (0, 1):
        for t in range(1, 21):
            rows += [("md", seed, t, 0.5 + 0.01 * (t == 1), 3.0 * t, 2.0 * t)]
            rows += [("other", seed, t, 0.6 + 0.01 * seed, 6.0 * t, 3.0 * t)]
    columns = ["method", "seed", "round", "test_accuracy", "megabytes", "thousands"]
    return pd.DataFrame(rows, columns=columns).assign(rounds=20)


def test_a_gain_is_told_with_its_price(frame):
    assert tables.price(frame, "other", "md") == (2.0, 1.5)
    assert tables.price(frame, "md", "md") == (1.0, 1.0)
    assert tables.gain(frame, "other", "md") == (
        "+10.5 points (+4.1 to +16.9), at 2.00 times the bytes and 1.50 times the examples"
    )
    assert tables.gain(frame, "strat", "md") == f"({tables.NOT_YET})"
    assert np.isnan(tables.price(frame, "strat", "md")).all()


def test_the_price_is_that_of_the_seeds_that_both_have(frame):
    third = frame[(frame["method"] == "md") & (frame["seed"] == 0)].assign(seed=2, megabytes=1e6)
    assert tables.price(pd.concat([frame, third]), "other", "md") == (2.0, 1.5)


def test_every_difference_to_md_in_chapter_5_is_told_with_its_price():
    page = (ROOT / "notebooks" / "05_experiments.py").read_text()
    made = (ROOT / "companion" / "pages" / "ch05.py").read_text()
    for statement in re.findall(r"tables\.compared\([^)]*\)", page + made):
        assert '"md"' not in statement, statement
    # Along the settings, by batch, with equal sizes of CIFAR-100; and against FedSTaS, by allocation.
    assert made.count("tables.gain(") == 4
    # What is said to lie above or below MD has its bytes in the same sentence.
    text = " ".join(page.replace("\n# ", "\n").split())
    told = re.findall(r"`ch5_apart_(\w+)`([^.]*)", text)
    assert sorted(key for key, _ in told) == [
        "corrected",
        "corrected_equal",
        "written",
        "written_equal",
    ]
    for key, sentence in told:
        assert f"ch5_times_{key}:" in sentence, key
    for p in ("dirichlet", "dirichlet_fixed_size"):
        recorded = tables.recorded("preprint", ROOT / "results").where(partition=p)
        sent, processed = tables.price(recorded, "fedstas-unbiased", "md")
        ends = (
            recorded[recorded["round"] == 99]
            .groupby("method")[["bytes_down", "bytes_up", "examples"]]
            .mean()
        )
        ends = ends.loc["fedstas-unbiased"] / ends.loc["md"]
        assert (
            1
            < min(ends["bytes_down"], ends["bytes_up"])
            <= sent
            <= max(ends["bytes_down"], ends["bytes_up"])
        )
        assert processed == pytest.approx(ends["examples"])


def test_printed_levels_are_counted_in_one_partition():
    """By hand, from the recorded runs: 54.67 and 55 are below both intervals, 56 is in the disjoint one's alone."""
    grid = tables.recorded("preprint", ROOT / "results")
    assert within_one_more(grid.where(partition="dirichlet"), PRINTED) == "1 of 3"
    assert within_one_more(grid.where(partition="dirichlet_fixed_size"), PRINTED) == "0 of 3"
    with pytest.raises(ValueError, match="several partitions: dirichlet, dirichlet_fixed_size"):
        within_one_more(grid.frame.sort_values("partition"), PRINTED)
    few = grid.where(partition="dirichlet", seed=0)
    assert within_one_more(few, PRINTED) == f"({tables.NOT_YET})"


def test_where_printed_levels_are_counted_the_partition_is_named():
    page = ROOT / "notebooks/05_experiments.py"
    text = " ".join(page.read_text().replace("\n# ", "\n").split())
    for key, name in (("dirichlet", "disjointly"), ("dirichlet_fixed_size", "equal sizes")):
        told = re.findall(rf"ch5_levels_{key}(?::s)?`([^;.]*)", text)
        assert told and all(name in sentence for sentence in told), (key, told)


def test_a_method_is_written_coded_or_corrected_and_a_partition_disjoint_or_of_equal_sizes():
    wrong = r"(?i)\bas (it|they) should be\b|partition as (written|coded)\b"
    wrong += r"|(disjoint|equal sizes|fixed.size) \(as (written|coded)\)"
    for page in PAGES:
        assert not re.findall(wrong, page.read_text()), page.name


def test_final_accuracy_is_the_mean_of_the_last_ten_rounds_everywhere(frame):
    values = tables.last_rounds(frame.assign(test_accuracy=frame["round"] / 100), "test_accuracy")
    assert values["value"].tolist() == pytest.approx([15.5] * 4)  # of rounds 11 to 20
    glossary = (ROOT / "book" / "glossary.md").read_text()
    assert re.search(
        r"^final accuracy\n  The mean .* in the last ten rounds", glossary, re.MULTILINE
    )
    assert tables.LAST == 10


def test_what_a_client_spends_counts_its_own_reports():
    """Of 99 rounds of 10 out of 100 clients the average client reports in 9.9; all do so as coded only."""
    for page in PAGES:
        if page.name.startswith("09"):
            continue
        text = " ".join(page.read_text().replace("\n# ", "\n").split())
        for sentence in re.findall(r"[^.;]*\b99 (?:fresh )?(?:reports )?cost[^.;]*", text):
            assert re.search(r"as coded|one client", sentence), (page.name, sentence)


def test_live_runs_of_one_seed_have_no_scatter():
    ends = pd.DataFrame({"md": [50.0, 52.0], "fedavg": [40.0, 40.0]})
    told = "Over 2 seeds a method's runs have a standard deviation of 0.7 points."
    assert ch05.scatter(ends) == told  # the mean of sqrt(2) and 0
    assert ch05.scatter(ends[:1]) == "One seed shows no scatter."


def alts(text: str):
    for name, title, options, _ in markdown.pieces(text):
        if name in ("glue:figure", "figure") and "alt" in options:
            yield title, options["alt"]


def test_settings_in_alternative_texts_come_from_the_run():
    """A list of values that stands on an axis is glued, and what is glued there the chapter glues."""
    seen = 0
    for path in sorted((ROOT / "notebooks").glob("*.py")):
        source = path.read_text()
        for title, alt in alts("\n".join(line.removeprefix("# ") for line in source.split("\n"))):
            assert not re.search(
                r"\b(sigma|concentration|rates?|epsilon) (from )?\d[\d.]*(, \d| and \d| to \d)", alt
            ), (title, alt)
            for key in re.findall(r"\{glue:text\}`(\w+)", alt):
                short = key.partition("_")[2]
                assert re.search(rf"\b{short}=|\"{short}\"|\"{key}\"", source), f"{title}: {key}"
                seen += 1
    assert seen >= 8
