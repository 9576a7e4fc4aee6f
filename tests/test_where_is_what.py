"""Tests of book/where_is_what.md: one row per numbered item of the papers, and each place it links to names the item."""

import importlib
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import jupytext
import pytest

import companion
import fedstas
from companion.claims import coverage, ledger
from companion.claims.coverage import recorded_state
from companion.runs import experiments

ROOT = Path(__file__).parents[1]
KINDS = {"eq": "eq.", "Fig": "Fig.", "Figure": "Fig.", "Lemma": "Lemma", "Theorem": "Theorem"}
KINDS |= {k: k for k in ("Algorithm", "Assumption", "Definition", "Proposition")}
NUMBER = r"\d+(?:\.\d+)?(?![\d.]*\d)"
MENTION = re.compile(
    rf"\b(eqs?\.?|equations?|Figs?\.|Figures?|Lemmas?|Theorems?|Algorithms?|Assumptions?|Definitions?|Propositions?)"
    rf"[ ~\u00a0]({NUMBER}[a-z]?(?:(?:, | and |, and | to |[–-]){NUMBER}[a-z]?)*)",
    re.IGNORECASE,
)


def expand_range(first: str, last: str = "") -> list[str]:
    """Return the numbers of a range: 6.9 to 6.11 is 6.9, 6.10, 6.11."""
    if not last:
        return [first]
    head, _, one = first.rpartition(".")
    other = last.rpartition(".")[2]
    return [f"{head}.{k}".lstrip(".") for k in range(int(one), int(other) + 1)]


def find_numbered_items(text: str) -> set[str]:
    """Return the numbered items that a text names: `eq. 12–14 and 17` is four equations."""
    items = set()
    for word, listed in MENTION.findall(" ".join(text.split())):
        kind = KINDS[
            "eq" if word.lower().startswith("eq") else word.rstrip(".").rstrip("s").capitalize()
        ]
        for part in re.split(r", and |, | and ", listed):
            ends = [re.sub("[a-z]$", "", e) for e in re.split(r" to |[–-]", part)]
            items |= {f"{kind} {n}" for n in expand_range(*ends)}
    return items


UNNUMBERED = ("And besides", "FedSTaS: sections, data and studies")


def normalise_title(text: str) -> str:
    """Return a title in lower case without spaces and punctuation."""
    return re.sub(r"[^a-z0-9]", "", text.lower())


@cache
def read_sections(chapter: str) -> dict[str, str]:
    """Return the text of each section by normalised title, with code and subsections; "" is the text before the first title."""
    (source,) = (ROOT / "notebooks").glob(f"{chapter}_*.py")
    lines_by_title, open_sections = {"": []}, [(1, "")]
    for cell in jupytext.read(source, fmt="py:percent").cells:
        for line in cell.source.split("\n"):
            title = re.match(r"(##+) (.+)", line) if cell.cell_type == "markdown" else None
            if title:
                level = len(title[1])
                open_sections = [(n, t) for n, t in open_sections if n < level and t] + [
                    (level, normalise_title(title[2]))
                ]
                lines_by_title[open_sections[-1][1]] = []
            for _, name in open_sections:
                lines_by_title[name].append(line)
    return {name: "\n".join(lines) for name, lines in lines_by_title.items()}


def read_rows() -> list[tuple[str, list[str]]]:
    """Return (paper, cells) of each row of the tables of numbered items."""
    rows, paper = [], ""
    for line in (ROOT / "book" / "where_is_what.md").read_text(encoding="utf-8").split("\n"):
        if line.startswith("## "):
            paper = line[3:]
        cells = [c.strip() for c in line.strip("|").split(" | ")]
        if line.startswith("| ") and cells[0] not in ("Printed", "---") and paper not in UNNUMBERED:
            rows.append((paper, cells))
    return rows


JOURNAL, PREPRINT, SLIDES, CLUSTERED, EXPERIMENTS = dict.fromkeys(paper for paper, _ in read_rows())


def list_items(paper: str) -> list[str]:
    """Return the items of a paper, the first cells of its rows."""
    return [cells[0] for p, cells in read_rows() if p == paper]


def test_lists_and_ranges_of_numbers_are_expanded():
    text = "Eq. 6.9 to 6.11 and 3.5, Lemmas 3 and\n4; eq. 12–14, 17; Figure 2; Fig. 3 of eq. 6.12"
    assert find_numbered_items(text) == {
        *(f"eq. {k}" for k in ("6.9", "6.10", "6.11", "3.5", "12", "13", "14", "17", "6.12")),
        *("Lemma 3", "Lemma 4", "Fig. 2", "Fig. 3"),
    }
    assert find_numbered_items("2.13 to 3") == set() and "eq. 6" not in find_numbered_items(
        "eq. 6.11"
    )


def numbered(counts: dict[str, int]) -> list[str]:
    """Return `Lemma 1`, `Lemma 2`, ... for each kind of item, up to its count."""
    return [f"{kind} {k}" for kind, count in counts.items() for k in range(1, count + 1)]


def test_every_numbered_item_of_the_four_papers_has_one_row():
    """The numbered items are copied from the papers, which are not part of the repository."""
    journal = ["eq. 3.5", "eq. 5.6", "eq. 5.7", "Definition 1", "Sec. 3.2", "Sec. 4.1"]
    journal += [f"eq. 2.{k}" for k in range(1, 5)] + [f"eq. 6.{k}" for k in range(8, 14)]
    journal += numbered({"Assumption": 6, "Lemma": 5, "Theorem": 3, "Algorithm": 3})
    preprint = ["Lemma 2.1", "Lemma 2.2", "Definition 2.3", "Lemma 2.4"]
    preprint += numbered({"eq.": 11, "Algorithm": 3, "Fig.": 3})
    clustered = ["Lemma 5", "Proposition 1"]
    clustered += numbered({"eq.": 57, "Assumption": 4, "Theorem": 4, "Algorithm": 2, "Fig.": 10})
    for paper, items in ((JOURNAL, journal), (PREPRINT, preprint), (CLUSTERED, clustered)):
        assert sorted(list_items(paper)) == sorted(items)
    slides = ["Algorithm 1", "Lemma 1", "Lemma 2", "Client Sampling", "Challenges", "Workflow"]
    slides += ["Uniform Data Sampling", "Privacy-Preserving Ratio Estimation"]
    slides += [
        "Experiential Datasets and Settings",
        "MIND",
        "Amazon-Toys",
        "Amazon-Beauty",
        "FEMNIST",
    ]
    slides += ["Federated Learning", "Discussions on Utility and Privacy"]
    slides += ["Text-CNN", "Transformer", "Performance Evaluation", "Class Non-IID Distribution"]
    slides += ["Comparisons with Weighted Sampling", "Influence of Data Size Imbalance"]
    assert sorted(list_items(SLIDES)) == sorted([*slides, "epsilon and M", "Conclusion"])


def test_each_row_of_the_slides_has_a_known_state_and_names_declared_sweeps():
    """The column *State*: done, or a substitute and the reason; every sweep that it names is recorded."""
    states = {cells[0]: cells[2] for paper, cells in read_rows() if paper == SLIDES}
    assert all(s.startswith(("done", "substitute", "as Amazon-Toys")) for s in states.values())
    for item, state in states.items():
        named = [name for name in re.findall("`([^`]+)`", state) if name in experiments.names()]
        assert {recorded_state(name) for name in named} <= {"recorded"}, item
    sweeps = {n for s in states.values() for n in re.findall(r"`(fedsampling-[\w-]+)`", s)}
    assert sweeps and sweeps <= set(experiments.names())
    for data_set in ("MIND", "Amazon-Toys", "FEMNIST"):
        assert re.search("not to be had|where it can be downloaded", states[data_set])


def test_a_row_of_the_slides_is_done_only_if_the_ledger_has_its_data():
    """A figure or table whose claims have no data in the ledger is done with a substitute."""
    states = {cells[0].lower(): cells[2] for paper, cells in read_rows() if paper == SLIDES}
    claims = [c for c in ledger.all_claims() if c.paper == "slides" and c.kind != "theory"]
    without_data = {
        next(item for item in states if claim.place.lower().startswith(item))
        for claim in claims
        if claim.kind in ("figure", "table") and ledger.decide(claim).verdict == "no-data"
    }
    assert len(without_data) == 2
    assert all(states[item].startswith("substitute") for item in without_data)


def test_the_page_says_of_cifar10_what_is_recorded():
    page = (ROOT / "book" / "where_is_what.md").read_text(encoding="utf-8")
    said = "no run of its sweep is recorded" in " ".join(page.split())
    assert said == (recorded_state("clustered-cifar10") == "declared")


def test_the_preprints_numbers_are_mapped_to_the_journals():
    mapping = {cells[0]: cells[1] for paper, cells in read_rows() if paper == PREPRINT}
    assert set(mapping.values()) - {"–"} <= set(list_items(JOURNAL))
    equations = ["eq. 2.1", "eq. 2.2", "–", "eq. 2.3", "eq. 2.4", "Algorithm 3", "eq. 5.6"]
    equations += ["eq. 5.7", "eq. 6.8", "eq. 6.12", "eq. 6.13"]
    algorithms = [f"Algorithm {k}" for k in (2, 3, 1)]
    others = {"Lemma 2.1": "Lemma 1", "Lemma 2.2": "Lemma 2"}
    others |= {"Definition 2.3": "Definition 1", "Lemma 2.4": "Lemma 5"}
    assert [mapping[f"eq. {k}"] for k in range(1, 12)] == equations
    assert [mapping[f"Algorithm {k}"] for k in (1, 2, 3)] == algorithms
    assert [mapping[f"Fig. {k}"] for k in (1, 2, 3)] == ["–"] * 3
    assert {item: mapping[item] for item in others} == others


@pytest.mark.parametrize("paper", [JOURNAL, PREPRINT, SLIDES, CLUSTERED])
def test_each_linked_section_names_the_item_of_its_row(paper):
    """The table of sections and experiments has a test of its own below."""
    problems = []
    for _, cells in (row for row in read_rows() if row[0] == paper):
        names = {cells[0], *(cells[1:2] if paper == PREPRINT else ())}
        places = re.findall(r"\{at\}`([^`]+)`", " ".join(cells))
        assert places, f"{cells[0]} is nowhere"
        for place in places:
            chapter, _, title = place.partition(" ")
            text = read_sections(chapter).get(normalise_title(title))
            if text is None:
                problems.append(f"{cells[0]}: chapter {chapter} has no section {title!r}")
            elif not names & find_numbered_items(text) and not any(
                n in " ".join(text.split()) for n in names if n.split()[0].rstrip(".") not in KINDS
            ):
                problems.append(f"{cells[0]}: {place!r} does not name it")
    assert not problems, "\n".join(problems)


def read_unnumbered_rows() -> list[list[str]]:
    """Return the cells of each row of the table of sections, data and studies."""
    page = (ROOT / "book" / "where_is_what.md").read_text(encoding="utf-8")
    _, title = UNNUMBERED
    _, after_title = page.split(f"\n## {title}\n")
    table, *_ = after_title.split("\n## ")
    _, _, *lines = [line for line in table.split("\n") if line.startswith("| ")]  # without its head
    return [[cell.strip() for cell in line[2:].removesuffix("|").split(" | ")] for line in lines]


def test_every_section_data_set_and_study_of_fedstas_has_a_place_and_a_reason_unless_it_is_done():
    for item, state, links, reason in read_unnumbered_rows():
        assert state in ("done", "partly", "absent"), item
        assert (len(reason) > 10) == (state != "done"), item
        places = re.findall(r"\{at\}`(\w+) ([^`]+)`", links)
        assert places and all(
            normalise_title(title) in read_sections(chapter) for chapter, title in places
        ), item


def test_no_section_of_the_two_versions_is_left_out():
    titles = " ".join(item for item, *_ in read_unnumbered_rows())
    sections_by_version = {"journal": set(), "preprint": set()}
    for version, number in re.findall(r"(journal|preprint) (\d(?:\.\d)?)", titles):
        sections_by_version[version].add(number)
    journal = {"1", "2", "3", "4", "5", "6.1", "6.2", "6.3", "6.4", "7", "8", "9"}
    preprint = {"1", *(f"2.{k}" for k in range(1, 6)), "3.1", "3.2", "4"}
    assert sections_by_version == {"journal": journal, "preprint": preprint}


def test_sections_and_experiments_of_clustered_sampling_have_their_place_and_state():
    """Sections are found by title and name the item; a sweep counts as recorded once it is in results/."""
    items = list_items(EXPERIMENTS)
    numbered = ["Sec. 1", *(f"Sec. 2.{k}" for k in range(1, 5)), "Sec. 3.1", "Sec. 3.2"]
    numbered += [*(f"Sec. {k}" for k in range(4, 8)), *(f"App. {k}" for k in "ABCD")]
    assert items[: len(numbered)] == numbered
    experiments_of_paper = {
        "MNIST",
        "CIFAR-10",
        "dropout",
        "concentration",
        "measure",
        "linkage",
        "local steps",
    }
    assert experiments_of_paper | {"participants", "FedProx", "rolling mean", "test sets"} <= set(
        items
    )
    for _, cells in (row for row in read_rows() if row[0] == EXPERIMENTS):
        for place in re.findall(r"\{at\}`([^`]+)`", cells[2]):
            chapter, _, title = place.partition(" ")
            text = read_sections(chapter).get(normalise_title(title))
            assert text is not None, f"{cells[0]}: chapter {chapter} has no section {title!r}"
            if not cells[0].startswith(("Sec. ", "App. ")):
                section_text = " ".join(text.replace("\n#", "\n").split()).lower()
                assert re.sub("s$", "", cells[0].lower()) in section_text, (
                    f"{place} names no {cells[0]}"
                )
        for state in cells[5].rstrip(" |").split("; "):
            word, _, names = state.partition(": ")
            sweeps = re.findall("`([^`]+)`", names)
            assert bool(sweeps) == (word != "computed") and set(sweeps) <= set(experiments.names())
            assert {s: recorded_state(s) for s in sweeps} == dict.fromkeys(sweeps, word), cells[0]


def entry(place, verdict, substitute="", paper="clustered"):
    """Return an entry of the ledger, as far as the states need it."""
    keys = ("id", "paper", "place", "verdict", "substitute", "note")
    return dict(zip(keys, ("x", paper, place, verdict, substitute, "why"), strict=True))


def test_every_row_of_the_page_is_an_item_with_a_state_and_a_reason_unless_it_is_done():
    page = (ROOT / "book" / "where_is_what.md").read_text(encoding="utf-8")
    items = coverage.read_items(page, [])
    named = [(section, cells[0]) for section, cells in read_rows()]
    named += [("FedSTaS: sections, data and studies", cells[0]) for cells in read_unnumbered_rows()]
    assert sorted((i.section, i.name) for i in items) == sorted(named)
    assert {i.state for i in items} <= set(coverage.STATES)
    for item in items:
        assert (len(item.reason) > 10) == (item.state != "done"), item
    counts = coverage.count_states(items)
    assert sum(sum(count.values()) for count in counts.values()) == len(items) > 200


@pytest.mark.parametrize(
    ("verdicts", "state"),
    [
        ([("agrees", ""), ("undecided", "")], "done"),
        ([("no-data", "agrees")], "substitute"),
        ([("no-data", "agrees"), ("agrees", "")], "partly"),
        ([("no-data", "agrees"), ("no-data", "")], "partly"),
        ([("pending", "")], "not"),
    ],
)
def test_the_state_of_a_figure_follows_from_the_verdicts_on_its_claims(verdicts, state):
    page = "## Clustered Sampling\n| Printed | What |\n| --- | --- |\n| Fig. 1 | one |\n| Fig. 7 | Fig. 1 raw |"
    claims = [entry("Fig. 1", *each) for each in verdicts] + [entry("Fig. 10", "agrees")]
    assert [item.state for item in coverage.read_items(page, claims)] == [state, state]
    assert {i.state for i in coverage.read_claims([entry("Sec. 1", *verdicts[0])])} <= set(
        coverage.STATES
    )


def test_a_figure_of_which_a_claim_is_decided_by_shorter_runs_is_shorter():
    page = "## Clustered Sampling\n| Printed | What |\n| --- | --- |\n| Fig. 1 | one |"
    shorter = entry("Fig. 1", "agrees") | {"note": coverage.REDUCED + "why"}
    (item,) = coverage.read_items(page, [entry("Fig. 1", "agrees"), shorter])
    assert item.state == "shorter" and item.reason.startswith("1 of its 2 claims")


def test_the_state_of_a_row_follows_from_which_of_its_sweeps_are_recorded(monkeypatch):
    words = {"all": "recorded", "some": "recorded in part", "none": "declared"}
    words["part"] = "recorded in part"
    monkeypatch.setattr(coverage, "recorded_state", words.get)
    monkeypatch.setattr(coverage, "SHORTER_SWEEPS", {"none": "short"})
    words["short"] = "recorded"
    for cell, reason in {
        "recorded in part: `some`": "`some` is recorded in part",
        "recorded in part: `some`, `part`": "`some`, `part` are recorded in part",
        "recorded: `all`; recorded in part: `some` (two rates were tried)": "two rates were tried",
        "recorded: `all` (in full)": "",
    }.items():
        assert coverage.state_of_sweeps(cell)[1] == reason
    for cell, state in {
        "computed": "done",
        "recorded: `all`": "done",
        "recorded in part: `some`": "partly",
        "recorded: `all`; declared: `none`": "substitute",
        "recorded: `all`, `short`; recorded in part: `some`; declared: `none`": "shorter",
        "declared: `none`": "not",
    }.items():
        assert coverage.state_of_sweeps(cell)[0] == state


def test_each_function_of_the_theory_is_named_in_a_test_of_its_row():
    """Other functions and classes may be tested by way of what calls them, such as a method or a figure."""
    page = (ROOT / "book" / "where_is_what.md").read_text(encoding="utf-8")
    checked, problems = set(), []
    for line in page.split("\n"):
        functions = re.findall(r"`theory\.(?:\w+\.)*([a-z]\w*)`", line)
        tests = re.findall(r"`(test_\w+)`", line)
        texts = [(ROOT / "tests" / f"{test}.py").read_text(encoding="utf-8") for test in tests]
        checked |= set(functions)
        problems += [
            f"{function}: not in {', '.join(tests)}"
            for function in functions
            if not any(re.search(rf"\b{function}\b", text) for text in texts)
        ]
    assert len(checked) > 20 and not problems, "\n".join(problems)


def test_the_functions_that_the_page_names_are_imported_as_it_says():
    """In a process of its own, since other tests import modules that the page does not name."""
    page = (ROOT / "book" / "where_is_what.md").read_text(encoding="utf-8")
    assert "from fedstas import …" in page and "from companion import …" in page
    names = set(re.findall(r"(?<!\})`((?!test_)[a-z]\w*(?:\.\w+)+)`", page))
    theory_first = sorted(names, key=lambda name: (not name.startswith("theory."), name))
    code = f"""
from operator import attrgetter
import companion, fedstas
for name in {theory_first}:
    package = fedstas if hasattr(fedstas, name.split(".")[0]) else companion
    attrgetter(name)(package)
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_every_function_and_test_that_the_page_names_exists():
    page = (ROOT / "book" / "where_is_what.md").read_text(encoding="utf-8")
    names = re.findall(r"(?<!\})`([a-z]\w*(?:\.\w+)*)`", page)
    for name in names:
        if name.startswith("test_"):
            assert (ROOT / "tests" / f"{name}.py").is_file(), name
            continue
        module, *members = name.split(".")
        member_object = getattr(fedstas, module, None) or getattr(companion, module)
        for member in members:
            member_object = getattr(member_object, member, None) or importlib.import_module(
                f"{member_object.__name__}.{member}"
            )
        assert members and callable(member_object), f"{name} is no function or class"
    assert len(set(names)) > 80
    for _, cells in read_rows():
        assert any(
            n in names and not n.startswith("test_")
            for n in re.findall(r"`([\w.]+)`", " ".join(cells))
        )
