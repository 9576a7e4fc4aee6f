"""Which design should you use: chapter 10's questions, and what each advice gained and cost in the recorded runs.

`build` returns the nodes with their numbers, `as_json` the same as plain data for the demo that one clicks through
(`book/_ext/instruments/tree.js`), and `draw` the figure. `python -m companion.pages.landing_page FOLDER` writes
`decision-tree.json`, and the figure as the demo's still picture.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from companion.pages import last_models, plots, saved_bytes
from companion.runs.comparison import Setting
from companion.runs.records import Record

FILE = "decision-tree.json"
PAGE = "10_which_design"  # the chapter that the links lead to


@dataclass(frozen=True, kw_only=True)
class Node:
    """A question with its answers, or an advice.

    `gain` and `cost` are sentences with numbers of the recorded comparison. `link` is an anchor in chapter 10, and
    `cells` are tasks with the anchors of their rows in its table of all cells, where the numbers of the gain stand.
    `method` is the name for `--method` of what is advised, "closed-form" for a head without training, "" for a
    question. `answers` are pairs of an answer and the key of the node that it leads to; an advice has none, or one
    that goes on.
    """

    key: str
    text: str
    gain: str = ""
    cost: str = ""
    link: str = ""
    method: str = ""
    answers: tuple[tuple[str, str], ...] = ()
    cells: tuple[tuple[str, str], ...] = ()

    @property
    def is_question(self) -> bool:
        """Whether there is something to decide."""
        return len(self.answers) > 1


def build(
    outcomes: pd.DataFrame,
    gains: pd.DataFrame,
    settings: Mapping[str, Setting],
    recorded: list[Record],
    heads: pd.DataFrame,
    models: pd.DataFrame,
) -> dict[str, Node]:
    """Return the nodes by key, the first question first, with the numbers of the recorded runs.

    Args:
        outcomes: as `saved_bytes.load` returns them, of all settings.
        gains: as `comparison.compare` returns them, against MD.
        settings: of the comparison, by name.
        recorded: its runs.
        heads: as `closed_form_heads.compute_outcomes` returns them.
        models: as `last_models.compute` returns them.
    """
    numbers = saved_bytes.compute_rate_gain(settings[saved_bytes.FEATURES], recorded)
    added = numbers["rate_accuracy"] - numbers["rate_small_accuracy"]
    average = saved_bytes.compute_average_gains(outcomes)
    most = average.iloc[len(average) // 2 :]  # the larger half
    rows = saved_bytes.select_shown(gains[gains["outcome"] == "ratio"])
    rows = rows.set_index(["model", "arm", "setting"])
    ratios, is_bound = rows["mean"].to_dict(), (rows["reached"] < rows["seeds"]).to_dict()

    def get_ratio(setting: str, arm: str = saved_bytes.RECOMMENDED, model: str = "average") -> str:
        """Format a ratio to MD's megabytes; one that some seeds only bound as a lower bound."""
        bound = "at least " if is_bound[model, arm, setting] else ""
        return f"{bound}{ratios[model, arm, setting]:.2f}"

    last_numbers, _ = last_models.summarise(models)
    same = [ratios["average", saved_bytes.RECOMMENDED, s] for s in saved_bytes.NO_SAVING]
    similar = [
        value
        for (m, arm, setting), value in ratios.items()
        if (m, arm) == ("average", saved_bytes.SIMILARITY) and setting != saved_bytes.GARMENTS
    ]
    closed = saved_bytes.compute_closed_form_numbers(heads, outcomes)

    def list_cells(arm: str, names: Iterable[str]) -> tuple[tuple[str, str], ...]:
        """Return the short titles of settings, and the anchors of an arm's rows in the table of all cells."""
        return tuple(
            (saved_bytes.SHORT_TITLES[name], saved_bytes.make_anchor(name, arm)) for name in names
        )

    nodes = [
        Node(
            key="linear",
            text="Do you train only the last layer, on features of a frozen network?",
            link="closed-form",
            answers=(("yes", "closed"), ("no", "tuned")),
        ),
        Node(
            key="closed",
            text="Try a closed form first: ridge regression or class means",
            gain=f"ridge ends at {closed['closed_ridge']:.1f} % on CIFAR-100 features, the best design at MD's bytes at "
            f"{closed['closed_ridge_best_equal']:.1f} %; class means at {closed['closed_means']:.1f} % on newsgroups, "
            f"the best design at {closed['closed_means_best_equal']:.1f} %",
            cost=f"each client sends sums once; for ridge {closed['closed_times_low']:.1f} to "
            f"{closed['closed_times_high']:.1f} times the megabytes of MD's run",
            link="closed-form",
            method="closed-form",
            answers=(("if clients may not send such sums", "tuned"),),
        ),
        Node(
            key="tuned",
            text="Have you tuned the learning rate with MD sampling, at the number of participants that you ask?",
            link="which-tune",
            answers=(("yes", "average"), ("no", "tune")),
        ),
        Node(
            key="tune",
            text="Tune it first: three rates, more while the best is at an end",
            gain=f"{added:+.1f} points for MD on CIFAR-10 features, from rate {numbers['rate_small']:g} to {numbers['rate']:g}",
            cost=f"{numbers['tuning_runs']} runs, once, for both schedules and two seeds",
            link="which-tune",
            method="md",
            answers=(("then", "average"),),
        ),
        Node(
            key="average",
            text="Can you deploy an average of the server's models, in place of the last one?",
            gain=f"{min(most):+.1f} to {max(most):+.1f} points for MD on {_count(len(most))} of "
            f"{_count(len(average))} tasks, over a last model at a constant rate",
            cost="nothing is sent, and training stays as it is",
            link="which-average",
            answers=(("yes", "ask"), ("no", "last")),
        ),
        Node(
            key="last",
            text="Let the rate fall by a cosine, and tune it for the last model",
            gain=f"MD's last model is then at most {last_numbers['last_lost']:.1f} points below its average on all "
            f"{_count(len(average))} tasks",
            cost="runs of tuning, which the average needs, too",
            link="which-average",
            method="md",
            answers=(("then", "ask"),),
        ),
        Node(
            key="ask",
            text="Can each client send 64 numbers, once, and may the server see them?",
            link="which-ask",
            answers=(("yes", "unlike"), ("no", "nothing")),
        ),
        Node(
            key="nothing",
            text="Take MD, or clustered sampling by similarity if the server may see single updates",
            gain=f"{get_ratio(saved_bytes.GARMENTS, saved_bytes.SIMILARITY)} times MD's megabytes on Fashion-MNIST by "
            f"similarity, {min(similar):.2f} or more elsewhere",
            cost="nothing is sent; no secure aggregation with clustered sampling",
            link="which-ask",
            method="clustered-similarity",
            cells=list_cells(saved_bytes.SIMILARITY, (saved_bytes.GARMENTS,)),
        ),
        Node(
            key="unlike",
            text="How many participants has a round, and how heterogeneous are the clients?",
            link="which-unlike",
            answers=(
                ("few, and rounds miss classes", "strata"),
                ("many participants, or similar clients", "md"),
            ),
        ),
        Node(
            key="strata",
            text="Take least-variance strata",
            gain=f"{get_ratio(saved_bytes.GARMENTS)} times MD's megabytes on Fashion-MNIST, {get_ratio(saved_bytes.UNLIKE)} on "
            f"CIFAR-10 at 0.01, {get_ratio(saved_bytes.BY_AUTHOR)} on newsgroups, {get_ratio('mnist')} on MNIST",
            cost="256 bytes and a pass over its data from every client before round 1, again if clients join; no secure "
            "aggregation",
            link="which-unlike",
            method="fedstas-least-variance",
            cells=list_cells(
                saved_bytes.RECOMMENDED,
                (saved_bytes.GARMENTS, saved_bytes.UNLIKE, saved_bytes.BY_AUTHOR, "mnist"),
            ),
        ),
        Node(
            key="md",
            text="Take MD sampling",
            gain=f"strata would need at least {min(same):.2f} to {max(same):.2f} times its megabytes; every interval holds 1",
            cost="nothing, and it works under secure aggregation",
            link="which-unlike",
            method="md",
            cells=list_cells(saved_bytes.RECOMMENDED, saved_bytes.NO_SAVING),
        ),
    ]
    return {node.key: node for node in nodes}


def _count(number: int) -> str:
    """Write a small number as a word."""
    words = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    return words[number] if number < len(words) else str(number)


def follow(nodes: Mapping[str, Node], answers: Sequence[int]) -> list[str]:
    """Return the keys of the nodes that one passes, from the first question on, with the numbers of these answers."""
    keys = [next(iter(nodes))]
    for answer in answers:
        keys.append(nodes[keys[-1]].answers[answer][1])
    return keys


def list_paths(nodes: Mapping[str, Node]) -> list[list[int]]:
    """List the answers, by their numbers, of every path from the first question to an advice that ends it."""

    def list_from(key: str) -> list[list[int]]:
        answers = nodes[key].answers
        if not answers:
            return [[]]
        return [[n, *rest] for n, (_, to) in enumerate(answers) for rest in list_from(to)]

    return list_from(next(iter(nodes)))


def as_json(nodes: Mapping[str, Node]) -> str:
    """Return the tree as JSON.

    Its keys: `start`, the key of the first question; `page`, the chapter of the links; the `nodes` by key; and `cases`,
    every path through the tree with the nodes that it passes, which a page compares with those of its script.
    """
    paths = [{"given": [path], "answer": follow(nodes, path)} for path in list_paths(nodes)]
    content = {"start": next(iter(nodes)), "page": PAGE, "cases": {"follow": paths}}
    return json.dumps(
        content | {"nodes": {key: asdict(node) for key, node in nodes.items()}},
        indent=1,
        ensure_ascii=False,
    )


WRAP = {"question": 20, "advice": 33, "bold": 31}  # characters in a line
LINE, MARGIN, DROP = (
    0.155,
    0.09,
    0.42,
)  # inches: a line of 9 points, inside a box, between two questions
LEFT, RIGHT = 1.52, 1.88  # inches: the questions' right edge, and where advice begins


def _write_advice(answer: str, advice: Node) -> list[tuple[str, dict]]:
    """Return the lines of an advice with the answer that leads to it, each with its font."""
    lines = [(line, {"style": "italic"}) for line in textwrap.wrap(f"{answer}:", WRAP["advice"])]
    lines += [(line, {"weight": "bold"}) for line in textwrap.wrap(advice.text, WRAP["bold"])]
    for text in (f"Gain: {advice.gain}.", f"Cost: {advice.cost}."):
        lines += [(line, {}) for line in textwrap.wrap(text, WRAP["advice"])]
    return lines


def draw(nodes: Mapping[str, Node]) -> Figure:
    """Draw the tree: questions in boxes below each other, and right of each the advice that ends there."""
    questions = [node for node in nodes.values() if node.is_question]
    rungs = []  # lines of a question, of the words on the arrow to the next question, and right of it
    for node in questions:
        ends = [(answer, nodes[to]) for answer, to in node.answers if not nodes[to].is_question]
        on = [answer for answer, to in node.answers if nodes[to].is_question]
        lines: list[tuple[str, dict]] = []
        for answer, advice in ends:
            lines += [("", {})] if lines else []
            lines += _write_advice(answer, advice)
        words = f"{on[0]}, {node.gain}" if on and node.gain else "".join(on)
        on_arrow = textwrap.wrap(words, WRAP["question"] - 2)  # they begin further right
        rungs.append((textwrap.wrap(node.text, WRAP["question"]), on_arrow, lines))
    heights = [
        max(
            LINE * len(left) + 2 * MARGIN + max(DROP, LINE * len(words) + 0.16),
            LINE * len(right) + 2 * MARGIN + 0.12,
        )
        for left, words, right in rungs
    ]
    size = (plots.WIDTH, sum(heights))
    figure = plt.figure(figsize=size, layout="none")
    ax = figure.add_axes((0, 0, 1, 1), xlim=(0, size[0]), ylim=(size[1], 0))
    ax.axis("off")
    arrow = {"arrowstyle": "->", "color": plots.GREY, "lw": 1.2}
    top = 0.02
    for (left, words, right), height in zip(rungs, heights, strict=True):
        bottom = top + LINE * len(left) + 2 * MARGIN
        box = plt.Rectangle((0.02, top), LEFT, bottom - top, fill=False, ec=plots.BLACK, lw=1)
        ax.add_patch(box)
        for row, line in enumerate(left):
            ax.text(0.1, top + MARGIN + LINE * (row + 0.5), line, fontsize=9, va="center")
        for row, (line, font) in enumerate(right):
            y = top + MARGIN + LINE * (row + 0.5)
            ax.text(RIGHT, y, line, fontsize=9, va="center", **font)
        y = top + MARGIN + LINE / 2
        ax.annotate("", (RIGHT - 0.04, y), (0.02 + LEFT, y), arrowprops=arrow)
        if words:
            ax.annotate("", (0.2, top + height), (0.2, bottom), arrowprops=arrow)
            for row, line in enumerate(words):
                y = bottom + 0.13 + LINE * row
                ax.text(0.3, y, line, fontsize=9, va="center", style="italic")
        top += height
    return figure
