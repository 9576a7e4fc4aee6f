"""Figures and tables of chapter 5, *Can the paper be reproduced?*"""

from __future__ import annotations

from itertools import product

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.claims import ledger
from companion.claims.evidence.experiments import count_predicted, format_amount
from companion.claims.evidence.experiments_figures import count_in_prediction_intervals
from companion.pages import plots
from companion.runs import experiments, provenance_report, statistics, tables
from companion.runs.tables import Variant
from fedstas import methods, partition, simulation

GLOBAL, SHARES = METRICS = ("test_accuracy", "client_accuracy")
PARTITIONS = {"dirichlet": "disjoint", "dirichlet_fixed_size": "equal sizes"}
PAPER_NAMES = {"fedsts": "FedSTS", "fedstas": "FedSTaS", "fedstas-dp": "FedSTaS, private"}
METHOD_NAMES = {
    **{m: f"{name}, as written" for m, name in PAPER_NAMES.items()},
    **{f"{m}-authors-dec": f"{name}, as coded" for m, name in PAPER_NAMES.items()},
    **{f"{m}-authors-2025": f"{name}, as coded in 2025" for m, name in PAPER_NAMES.items()},
    "fedstas-unbiased": "FedSTaS, corrected",
    "fedstas-unbiased-dp": "corrected, private",
    "fedstas-least-variance": "least variance",
    "md": "MD",
    "fedavg": "FedAvg",
    "fedavg-unbiased": "FedAvg, unbiased",
    "fedprox": "FedProx",
    "fedadam": "FedAdam",
    "fedyogi": "FedYogi",
    "fedadagrad": "FedAdagrad",
    "clustered-size": "clustered by size",
    "clustered-similarity": "clustered by similarity",
    "strat": "strata, uniform",
    "strat-neyman": "strata, Neyman",
    "centralised": "one client with all data",
}
SWEEP_DESCRIPTIONS = {
    "preprint": "MNIST 0.01, both partitions, all methods",
    "last-bit": "one run as coded, with other last bits",
    "mnist-0.001": "MNIST 0.001, equal sizes",
    "mnist-iid": "MNIST, uniform split",
    "fashion-mnist": "Fashion-MNIST 0.01, disjoint",
    "cifar100": "CIFAR-100 0.001, as stated and with more local work",
    "sensitivity": "one setting at a time, MNIST 0.01 disjoint",
    "more-strata": "as many strata as participants, twenty and forty, the same",
    "batch-size": "batches of 32 and 512, the same",
    "privacy": "epsilon and M, the same",
    "ablation": "parts of the corrected method, the same",
    "server-rates": "one seed, to choose rates of servers and FedProx's mu",
    "servers": "FedProx and adaptive servers as chosen, MNIST 0.01 disjoint",
    "least-variance": "least-variance strata; here for the size of their batches",
    "optimal-data": "FedSTaS with examples allocated optimally, MNIST 0.01, both partitions",
    "cifar100-equal-0.001": "CIFAR-100 0.001, equal sizes, as stated",
    "cifar100-equal-rates": "one seed, to choose rates on CIFAR-100 0.1, equal sizes",
    "cifar100-equal": "CIFAR-100 0.1, equal sizes, at these rates",
    "authors-2025": "the authors' code of 2025 beside the text, frozen features of CIFAR-10",
    "authors-january": "CIFAR-10 0.1, equal sizes, as the authors trained on it in January 2025",
}


# What was run


def tabulate_sweeps(grids: dict[str, tables.RecordedSweep]) -> pd.DataFrame:
    """Tabulate how many runs of each sweep are recorded, and with how many seeds."""
    rows = []
    for name, grid in grids.items():
        by = ["partition", "method", "variant"]
        counts = grid.frame.groupby(by)["seed"].nunique() if grid.recorded else [0]
        low, high = min(counts), max(counts)
        seeds = f"{low} to {high}" if low < high else str(high)
        rows.append(
            (f"`{name}`", SWEEP_DESCRIPTIONS[name], f"{grid.recorded} of {grid.planned}", seeds)
        )
    return pd.DataFrame(rows, columns=["sweep", "what", "runs recorded", "seeds"])


def tabulate_machines(grids: dict[str, tables.RecordedSweep]) -> str:
    """Return a folded box with the machines and commits of all runs."""
    text, facts = tables.NOT_RECORDED, [g.facts for g in grids.values() if g.recorded]
    if facts:
        machines = ["device", "processor", "threads", "torch"]
        frame = pd.concat(facts).groupby(machines, as_index=False)
        frame = frame.agg(
            runs=("minutes", "size"),
            hours=("minutes", lambda m: f"{m.sum() / 60:.1f}"),
            commits=("commit", provenance_report.format_commits),
        )
        text = frame.to_markdown(index=False, disable_numparse=True)
    return f"````{{admonition}} Where the runs were made\n:class: dropdown\n\n{text}\n````"


def count_seeds(frame: pd.DataFrame) -> int:
    """Return the smallest number of seeds of the first methods in either partition."""
    counts = frame.groupby(["partition", "method"])["seed"].nunique()
    pairs = [(p, m) for p in PARTITIONS for m in experiments.MAIN_METHODS]
    return int(counts.reindex(pairs).fillna(0).min())


class Verdicts:
    """The verdicts on the claims of a chapter, decided when it is made; `box` shows each of them once."""

    def __init__(self, chapter: str):
        self.decided = {
            claim.id: (claim, ledger.decide(claim))
            for claim in ledger.all_claims()
            if claim.chapter.startswith(chapter)
        }
        self.unshown = dict.fromkeys(self.decided)

    def verdict(self, claim: str) -> str:
        """Return the verdict on a claim, of the method as written."""
        _, evidence = self.decided[claim]
        return evidence.verdict

    def box(self, title: str, *prefixes: str, but: str | None = None):
        """Return a folded box of the claims not shown yet whose ids have a prefix, except those that contain `but`.

        They count as shown from then on.
        """
        from IPython.display import Markdown

        chosen = [
            k for k in self.unshown if k.startswith(prefixes) and (but is None or but not in k)
        ]
        rows = []
        for name in chosen:
            self.unshown.pop(name)
            claim, evidence = self.decided[name]
            cells = (
                f"{claim.statement} *{claim.paper.capitalize()}, {claim.place}*",
                ledger.format_value(claim.printed),
                f"{ledger.format_ours(evidence) or '–'} {ledger.meaning(claim, evidence)}".strip(),
                f"**{evidence.verdict}**"
                + (f"; on a substitute: {evidence.substitute}" if evidence.substitute else "")
                + (f"; as coded: {evidence.coded}" if evidence.coded else ""),
            )
            rows.append([c.replace("|", "/") for c in cells])
        frame = pd.DataFrame(rows, columns=["claim", "printed", "ours", "verdict"])
        text = frame.to_markdown(index=False, disable_numparse=True)
        facts = ledger.first_of_each_fact(self.decided[name] for name in chosen)
        summary = format_counts(evidence.verdict for _, evidence in facts)
        if len(facts) < len(chosen):
            summary += f" ({len(chosen)} rows, {len(facts)} facts)"
        head = f"````{{admonition}} Verdicts on {title}: {summary}\n:class: verdict dropdown"
        return Markdown(f"{head}\n\n{text}\n````")

    def level_verdicts(self) -> dict[str, list[str]]:
        """Return the verdicts on levels, as written and as coded, of the facts that are decided for both.

        Claims whose ids contain "own" are about the papers' own numbers, and no levels of our runs.
        """
        return self._decided_for_both(
            lambda name: name.startswith(LEVEL_CLAIMS) and "own" not in name
        )

    def order_verdicts(self) -> dict[str, list[str]]:
        """Return the verdicts on orders and speeds, as written and as coded, of the facts decided for both."""
        return self._decided_for_both(lambda name: not name.startswith(LEVEL_CLAIMS))

    def _decided_for_both(self, includes) -> dict[str, list[str]]:
        """Return the verdicts on each fact once, of the claims whose id the predicate `includes`."""
        facts = ledger.first_of_each_fact(self.decided.values())
        evidence = [e for claim, e in facts if e.coded and includes(claim.id)]
        return {"written": [e.verdict for e in evidence], "coded": [e.coded for e in evidence]}

    def summarise(self) -> dict[str, object]:
        """Count rows, facts and verdicts: of all claims, then of levels and orders in both voices."""
        facts = ledger.first_of_each_fact(self.decided.values())
        counts = {"rows": len(self.decided), "claims": len(facts)}
        counts["counts"] = format_counts(evidence.verdict for _, evidence in facts)
        counts |= {
            f"levels_{voice}_all": format_counts(words)
            for voice, words in self.level_verdicts().items()
        }
        return counts | {
            f"orders_{voice}": format_counts(words)
            for voice, words in self.order_verdicts().items()
        }


TABLE_CLAIMS = (  # claims that the table of all methods decides
    "clustered-1-md",
    "journal-abstract-standard",
    "journal-3.3",
    "preprint-3.2.1-baseline",
    "preprint-fig-3-bottom-dp-own",
    "preprint-fig-3-middle-dp-own",
    "preprint-fig-3-top-dp-own",
)
LEVEL_CLAIMS = ("2a-dp", "2a-fedst", "2b-begins", "2b-fedsts", "3-top-dp", "3-top-fedst")
LEVEL_CLAIMS = tuple(f"preprint-fig-{k}" for k in LEVEL_CLAIMS)


def format_min_effects() -> str:
    """List the smallest differences that matter, by kind of claim."""
    return ", ".join(format_amount(value, kind) for kind, value in statistics.MIN_EFFECT.items())


def format_counts(words) -> str:
    """Format how many there are of each verdict, as `3 differs, 4 undecided`."""
    return ", ".join(f"{n} {v}" for v, n in ledger.count_verdicts(words).items()) or "none"


# Figure 1


def draw_partitions(label_counts: dict[str, np.ndarray]) -> Figure:
    """Draw a bar for each client, dark what its largest class has; a panel for each partition.

    Args:
        label_counts: of the clients [N, C], by the partition's name.
    """
    titles = PARTITIONS | {"iid": "IID"}
    parts = {}
    for name, title in titles.items():
        largest, size = label_counts[name].max(1), label_counts[name].sum(1)
        order = np.lexsort((-largest, -size))
        parts[title] = np.stack([largest, size - largest], axis=1)[order]
    options = {"height": 1.7, "columns": 3, "xlabel": "client, sorted", "ylabel": "examples"}
    figure = plots.panels(plots.class_counts, parts, ["#333333", "#BBBBBB"], **options)
    for y, text, colour in (
        (0.85, "its largest class", "#333333"),
        (0.67, "all others", "#777777"),
    ):
        where = {"xycoords": "axes fraction", "ha": "right"}
        plots.annotate(figure.axes[0], 0.98, y, text, colour, 0, **where)
    return figure


def draw_largest_classes(largest: np.ndarray, theirs: dict[int, float]) -> Figure:
    """Draw what clients have in their largest class, the clients in increasing order of it.

    Args:
        largest: shares [draws, N] of the clients' largest classes in our draws, of which the median and the middle nine
            tenths are drawn.
        theirs: the same shares of the authors' partition in per cent, by the client's place in that order.
    """
    figure, ax = plt.subplots(figsize=(plots.WIDTH, 2.6))
    low, middle, high = np.quantile(100 * np.sort(largest, axis=1), [0.05, 0.5, 0.95], axis=0)
    place = np.arange(1, largest.shape[1] + 1)
    ours = pd.DataFrame({"mean": middle, "low": low, "high": high}, place)
    styles = {"ours": plots.Style(plots.GREY), "theirs": plots.Style(plots.BLACK, "", "o")}
    axis = {"xlabel": "client, in order of that share", "ylabel": "share of largest class (%)"}
    lines = {"ours": ours, "theirs": pd.Series(theirs)}
    plots.curves(ax, lines, styles, names=False, **axis)
    ax.set(xlim=(-1, 102), ylim=(30, 103))
    plots.annotate(ax, 22, 84, "dots: the authors' partition", plots.BLACK, 0)
    plots.annotate(ax, 22, 74, "line and band: our draws", plots.GREY, 0)
    return figure


# Figure 2


PUBLISHED_ROUNDS = (10, 20, 40, 60, 80, 99)
PUBLISHED_ENDS = {"fedsts": (19.7, 56.13), "fedstas": (27.6, 56.96), "fedstas-dp": (18.2, 52.94)}
# The training losses at the same rounds, which the authors' files have and the paper does not.
PUBLISHED_LOSSES = {
    "fedsts": (2.236, 2.162, 2.006, 1.827, 1.665, 1.512),
    "fedstas": (2.232, 2.154, 1.989, 1.796, 1.627, 1.505),
    "fedstas-dp": (2.235, 2.157, 2.001, 1.818, 1.628, 1.473),
}


def draw_fig_2(frame: pd.DataFrame, theirs: dict, note: str) -> Figure:
    """Draw the published accuracies on ours, a panel for each method.

    Args:
        theirs: by method, the published accuracies (%) at rounds 20, 40, 60 and 80, and of the last ten rounds, which
            is left out; those at rounds 10 and 99 are PUBLISHED_ENDS.
        note: what to write where none of the runs is recorded.
    """
    curves = {}
    for m in PAPER_NAMES:
        round_10, round_99 = PUBLISHED_ENDS[m]
        *between, _ = theirs[m]
        curves[m] = (round_10, *between, round_99)
    return _draw_on_runs(frame, curves, SHARES, note)


def _draw_on_runs(frame: pd.DataFrame, published: dict, metric: str, note: str) -> Figure:
    """Draw published values at PUBLISHED_ROUNDS on our runs, a panel for each method."""
    parts = {name: (m, published[m]) for m, name in PAPER_NAMES.items()}
    options = {"height": 2.2, "columns": 3, "sharey": True}
    options |= {"xlabel": "round", "ylabel": plots.SHORT_METRICS[metric]}
    return plots.panels(draw_published, parts, frame, metric, note, **options)


def draw_published(ax: Axes, part: tuple, frame: pd.DataFrame, metric: str, note: str) -> None:
    """Draw a published curve, in black, on the median and the middle nine tenths of our runs.

    Args:
        part: the method as written, and its published values at the rounds PUBLISHED_ROUNDS.
        note: what to write where none of the runs is recorded.
    """
    method, published = part
    lines = {}
    for label, name in (("as written", method), ("as coded", f"{method}-authors-dec")):
        runs = frame[frame["method"] == name]
        if len(runs):
            wide = runs.pivot(index="round", columns="seed", values=metric)
            _, scale = plots.METRICS[metric]
            quantiles = scale * wide.quantile([0.05, 0.5, 0.95], axis=1).T
            lines[label] = quantiles.set_axis(["low", "mean", "high"], axis=1)
    if lines:
        lines["the paper"] = pd.Series(published, PUBLISHED_ROUNDS)
        styles = plots.VERSIONS | {"the paper": plots.Style(plots.BLACK, marker="o")}
        last = ax is ax.figure.axes[-1]  # where there is room for names
        plots.curves(ax, lines, styles, names=last)
    else:
        plots.write_in_panel(ax, note)


def count_losses_inside(frame: pd.DataFrame) -> dict[str, float]:
    """Count the published losses inside the prediction interval of one more run as coded.

    Returns:
        `losses_in` of `losses_of`, and `losses_apart`, the largest distance of FedSTaS's losses from FedSTS's.
    """
    inside = 0
    for m, values in PUBLISHED_LOSSES.items():
        runs = frame[frame["method"] == f"{m}-authors-dec"]
        spans = [
            statistics.prediction_interval(runs.loc[runs["round"] == t, "train_loss"])
            for t in PUBLISHED_ROUNDS
        ]
        inside += sum(a <= v <= b for v, (_, a, b) in zip(values, spans, strict=True))
    distance = np.abs(np.subtract(PUBLISHED_LOSSES["fedstas"], PUBLISHED_LOSSES["fedsts"])).max()
    return {
        "losses_in": inside,
        "losses_of": len(PUBLISHED_LOSSES) * len(PUBLISHED_ROUNDS),
        "losses_apart": float(distance),
    }


def tabulate_published(frame: pd.DataFrame, rounds: tuple, theirs: dict) -> pd.DataFrame:
    """Tabulate the published values, each with the prediction interval of one more run of ours as coded.

    The methods whose names end in `-authors-dec` are as the authors' code of December 2024 has them.

    Args:
        frame: our recorded runs, one row for each evaluated round of each.
        rounds: of `theirs`; the last is None, which stands for the mean of the last ten rounds.
        theirs: by method, the published accuracies (%) at these rounds.
    """
    rows = []
    for m, printed in theirs.items():
        loss = PUBLISHED_LOSSES[m][-1]
        rows.append(
            (PAPER_NAMES[m], "theirs, one run", *map("{:.1f}".format, printed), f"{loss:.2f}")
        )
        runs = frame[frame["method"] == f"{m}-authors-dec"]
        ours = [100 * runs.loc[runs["round"] == t, SHARES] for t in rounds[:-1]]
        ours += [
            tables.final_values(runs, SHARES)["value"],
            runs.loc[runs["round"] == 99, "train_loss"],
        ]
        intervals = [
            statistics.prediction_interval(v) if len(v) > 1 else [np.nan] * 3 for v in ours
        ]
        forms = [".0f"] * len(printed) + [".2f"]
        cells = [
            statistics.format_interval(*v, form) for v, form in zip(intervals, forms, strict=True)
        ]
        rows.append(("", f"ours, {runs['seed'].nunique()} runs", *cells))
    heads = [*(f"round {t}" for t in rounds[:-1]), "last ten", "loss, round 99"]
    return pd.DataFrame(rows, columns=["method", "", *heads])


STAND_INS = ("md", "fedprox", "centralised", "fedavg")


def tabulate_explanations(
    frame: pd.DataFrame, rounds: tuple, theirs: dict, printed: dict
) -> pd.DataFrame:
    """Tabulate whose runs explain the published values: `coded`, `written`, and methods in place of all three.

    Args:
        rounds, theirs: as for `tabulate_published`.
        printed: by method, the printed final accuracy (%).

    Returns:
        One row for each, with the columns whose runs, their curves, their ends (the printed accuracies and the losses at round 99)
        and points to either side (half the width of the prediction intervals).
    """
    curves = [(m, SHARES, t, v) for m in theirs for t, v in zip(rounds, theirs[m], strict=True)]
    ends = [(m, SHARES, None, value) for m, value in printed.items()]
    last = PUBLISHED_ROUNDS[-1]
    ends += [(m, "train_loss", last, values[-1]) for m, values in PUBLISHED_LOSSES.items()]
    whose = {"coded": ("FedSTaS's three, as coded", "{}-authors-dec")}
    whose["written"] = ("FedSTaS's three, as written", "{}")
    whose |= {m: (f"{METHOD_NAMES[m]} in place of each", m) for m in STAND_INS}
    rows = {}
    for name, (words, form) in whose.items():
        inside, halves = count_in_prediction_intervals(frame, curves, form.format)
        ends_inside, _ = count_in_prediction_intervals(frame, ends, form.format)
        counts = f"{inside} of {len(curves)}", f"{ends_inside} of {len(ends)}"
        rows[name] = (words, *counts, f"{min(halves):.0f} to {max(halves):.0f}")
    columns = ["whose runs", "their curves", "their ends", "points to either side"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


def explained_counts(explanations: pd.DataFrame) -> dict[str, str]:
    """Return how many points of the curves, and how many ends, each row of `tabulate_explanations` explains.

    The keys are as `curve_written` and `ends_md`. `curve_md` is left out: the chapter glues it by itself, since values
    that another page shows too are looked up by their names in the chapter's source.
    """
    curves, ends = explanations["their curves"].drop("md"), explanations["their ends"]
    return {f"curve_{k}": v for k, v in curves.items()} | {f"ends_{k}": v for k, v in ends.items()}


def summarise_spread(**groups: pd.Series) -> dict[str, float]:
    """Return the standard deviation, least, most and number of each group, with keys as `bits_sd`."""
    summary = {}
    for key, values in groups.items():
        summary |= {f"{key}_sd": values.std(), f"{key}_n": len(values)}
        summary |= {f"{key}_low": values.min(), f"{key}_high": values.max()}
    return summary


def leads_of_single_runs(
    frame: pd.DataFrame, first: str, second: str, at: int, published: float
) -> dict[str, float]:
    """Compare a published lead at a round with those of one run over another of ours, under the clients' class shares.

    Returns:
        With keys as `lead_40`: the mean lead of `first` over `second` at round `at` in points, and `lead_40_sd`, the
        standard deviation of the difference of two independent runs; `lead_40_share` is the share of all pairs of runs
        of different seeds with a lead of at least the published one.
    """
    wide = 100 * frame[frame["round"] == at].pivot(index="seed", columns="method", values=SHARES)
    one, other = wide[[first, second]].dropna().to_numpy().T
    leads = np.subtract.outer(one, other)[~np.eye(len(one), dtype=bool)]
    return {
        f"lead_{at}": float(np.mean(one - other)),
        f"lead_{at}_sd": float(np.sqrt(np.var(one, ddof=1) + np.var(other, ddof=1))),
        f"lead_{at}_share": float(np.mean(leads >= published)),
    }


def count_levels_inside(
    disjoint: pd.DataFrame, equal: pd.DataFrame, printed: dict
) -> dict[str, str]:
    """Count the printed accuracies inside the prediction interval of one more run, in either partition and as coded."""
    as_coded = {f"{m}-authors-dec": value for m, value in printed.items()}
    return {
        "levels_dirichlet": count_predicted(disjoint, printed),
        "levels_dirichlet_fixed_size": count_predicted(equal, printed),
        "levels_coded": count_predicted(equal, as_coded),
    }


# Figure 3 and CIFAR-100


def draw_fig_3(printed: dict[str, dict], runs: dict[str, pd.DataFrame]) -> Figure:
    """Draw the printed accuracies beside ours, with the interval of one more run, a panel for each setting.

    Args:
        printed: by the setting's title, the printed accuracy of each method (%).
        runs: by the same titles, our runs.
    """
    drawn: list[str] = []  # versions, in their order

    def draw(ax: Axes, part: tuple[dict, pd.DataFrame]) -> None:
        """Draw the measured beside the printed accuracies into a panel."""
        mean, low, high = compare_with_printed(*part)
        drawn.extend(version for version in mean if version not in drawn)
        plots.bars(ax, mean, plots.VERSIONS, low=low, high=high)
        ax.set_xlim(left=0)
        if ax is not ax.figure.axes[0]:
            ax.set_yticklabels([])

    parts = {title: (accuracies, runs[title]) for title, accuracies in printed.items()}
    options = {"height": 2.0, "columns": 3, "xlabel": "final accuracy (%)"}
    figure = plots.panels(draw, parts, **options)
    styles = {v: plots.VERSIONS[v]._replace(dash="", marker="s") for v in drawn}
    plots.legend(figure, styles, columns=3)
    return figure


def compare_with_printed(
    printed: dict[str, float], runs: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Compare printed accuracies with the prediction of one more run of ours, as written and as coded.

    Returns:
        Three frames of accuracies (%), with a row for each method and a column for each version: the printed accuracy
        and the mean of our runs, and the low and the high end of the prediction interval.
    """
    rows = []
    for method, value in printed.items():
        rows.append((PAPER_NAMES[method], "printed", value, np.nan, np.nan))
        for version, name in (("as written", method), ("as coded", f"{method}-authors-dec")):
            values = tables.final_values(runs[runs["method"] == name], SHARES)["value"]
            if len(values) > 1:
                mean, low, high = statistics.prediction_interval(values)
                rows.append((PAPER_NAMES[method], version, mean, max(low, 0), high))
    long = pd.DataFrame(rows, columns=["method", "version", "mean", "low", "high"])
    wide = long.pivot(index="method", columns="version").reindex(long["method"].unique())
    order = [version for version in plots.VERSIONS if version in set(long["version"])]
    mean, low, high = (wide[column][order] for column in ("mean", "low", "high"))
    return mean, low, high


def tabulate_other_settings(
    runs: dict[str, pd.DataFrame], printed: dict[str, dict]
) -> pd.DataFrame:
    """Tabulate every method in some settings: its final accuracy on the global test set and under the clients' class
    shares, and its difference to MD on the global test set.

    Args:
        runs: by the setting's title, the runs of all methods.
        printed: by the setting's title, the printed accuracies by method (%); nothing is printed of other settings.
    """
    comparison = tables.compare_methods(runs, METRICS)
    rows = []
    for (title, method), part in comparison.groupby(["place", "method"], sort=False):
        on_global, on_shares = (part[part["metric"] == metric].iloc[0] for metric in METRICS)
        sent, processed = tables.relative_cost(runs[title], method, "md")
        rows.append(
            {
                "setting": title.replace(" ", "\u00a0").replace("-", "\u2011"),  # do not break
                "method": METHOD_NAMES[method],
                "printed": str(printed.get(title, {}).get(method, "")),
                "global": statistics.format_plus_minus(
                    on_global["mean"], on_global["mean_low"], on_global["mean_high"]
                ),
                "against MD": statistics.format_plus_minus(
                    on_global["difference"], on_global["low"], on_global["high"], "+.1f"
                ),
                "p (Holm)": statistics.format_p(on_global["holm"]),
                "clients' shares": statistics.format_plus_minus(
                    on_shares["mean"], on_shares["mean_low"], on_shares["mean_high"]
                ),
                "bytes, examples (MD: 1)": f"{sent:.2f}, {processed:.2f}",
            }
        )
    return pd.DataFrame(rows)


PLACES_OF_2025 = {  # the settings of the authors' code of 2025, by title
    "0.01": ("dirichlet", 0.01),
    "0.1": ("dirichlet", 0.1),
    "IID": ("iid", None),
}


def draw_january(wide: pd.DataFrame, theirs: dict[int, float]) -> Figure:
    """Draw our runs of FedSTS on CIFAR-10 beside the authors' curve of January 2025.

    Args:
        wide: the accuracies of our runs under the clients' class shares (%), a column for each seed, by round.
        theirs: the authors' accuracy (%) by round.
    """
    figure, ax = plt.subplots(figsize=(plots.WIDTH, 2.6))
    lines = {f"ours, seed {seed}": wide[seed] for seed in wide} | {"theirs": pd.Series(theirs)}
    dashes = dict(zip(lines, ("-", "--"), strict=False))
    styles = {name: plots.VERSIONS["as coded"]._replace(dash=dash) for name, dash in dashes.items()}
    styles |= {"theirs": plots.Style(plots.BLACK, marker="o")}
    axis = {"xlabel": "round", "ylabel": plots.SHORT_METRICS[SHARES]}
    plots.curves(ax, lines, styles, **axis)
    return figure


def split_code_of_2025(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Split the runs of the sweep `authors-2025` by setting: titles as in `PLACES_OF_2025`."""
    parts = {}
    for title, (kind, concentration) in PLACES_OF_2025.items():
        part = frame[frame["partition"] == kind]
        parts[title] = (
            part if concentration is None else part[part["concentration"] == concentration]
        )
    return parts


def tabulate_code_of_2025(comparison: pd.DataFrame) -> pd.DataFrame:
    """Tabulate the sweep `authors-2025`: final accuracy, and the difference to FedSTaS as written, in each setting.

    `comparison` is that of `tables.compare_methods` with FedSTaS as the baseline.
    """
    rows: dict[str, dict[str, str]] = {}
    for (title, method), part in comparison.groupby(["place", "method"], sort=False):
        row_of_part = part.iloc[0]
        row = rows.setdefault(METHOD_NAMES[method], {"method": METHOD_NAMES[method]})
        row[f"{title} (%)"] = statistics.format_plus_minus(
            row_of_part["mean"], row_of_part["mean_low"], row_of_part["mean_high"]
        )
        if method != "fedstas":
            row[f"{title}, against as written"] = statistics.format_plus_minus(
                row_of_part["difference"], row_of_part["low"], row_of_part["high"], "+.1f"
            )
    return pd.DataFrame(list(rows.values())).fillna("")


def draw_cifar100(panels: dict[str, pd.DataFrame], printed: dict[str, float]) -> Figure:
    """Draw the accuracy on CIFAR-100 over rounds, a panel for each kind of local work.

    Args:
        panels: by title, the runs; first those with the local work that the paper states, last those with more.
        printed: the printed final accuracy of each method (%), dotted lines.
    """
    options = {"methods": experiments.CIFAR100_METHODS, "names": False, "ylim": (0, 28)}
    options |= {"sharey": True, "columns": 2, "height": 2.2}
    figure = plots.panels(plots.learning_curves, panels, GLOBAL, **options)
    first, last = figure.axes
    for ax in figure.axes:
        ax.set(xlabel="round", ylabel="")
        for value in printed.values():
            ax.axhline(value, color="black", lw=1, ls=":")
    first.set_ylabel("test accuracy (%)")
    plots.annotate(first, 110, 25, "printed, three methods", "black", 0, ha="center")
    plots.annotate(first, 110, 2.5, "all five", "black", 0, 4, ha="center")
    best = 100 * list(panels.values())[-1].groupby("method")[GLOBAL].max()["md"]
    for method, words, right in (
        ("md", "MD", -122),
        ("clustered-similarity", "clustered by similarity", 0),
    ):
        colour = plots.method_style(method).colour
        plots.annotate(last, 195, best + 2.5, words, colour, right, ha="right")
    plots.annotate(last, 195, 3.5, "all three of k-means strata", "black", 0, ha="right")
    return figure


# All methods


METHOD_ORDER = [m for m in METHOD_NAMES if m in experiments.TABLE_METHODS]


def draw_method_intervals(differences: pd.DataFrame, baseline: str = "md") -> Figure:
    """Draw each method's difference to the baseline on the global test set: a row for each method, in it a mark for
    each setting, full in the first and hollow in the others.

    Args:
        differences: as `tables.compare_methods` returns them.
    """
    names = [m for m in METHOD_ORDER if m != baseline]
    colours = [plots.VERSIONS[plots.version(m)].colour for m in names]
    series, styles = {}, {}
    for place, part in differences.groupby("place", sort=False):
        rows = part[part["metric"] == GLOBAL].set_index("method").reindex(names)
        rows = rows[["difference", "low", "high"]].set_axis([METHOD_NAMES[m] for m in names])
        styles[place] = plots.Style("black", hollow=bool(series))
        series[place] = rows.rename(columns={"difference": "mean"})
    figure, ax = plt.subplots(figsize=(plots.WIDTH, 4.8))
    label = f"points of final accuracy above {METHOD_NAMES[baseline]}"
    plots.intervals(ax, series, styles, colours=colours, reference=0, spread=0.36, xlabel=label)
    top = {"xycoords": ax.get_xaxis_transform(), "ha": "center", "va": "bottom"}
    plots.annotate(ax, 0, 1, f"{METHOD_NAMES[baseline]} = 0", "black", 0, 2, **top)
    for place, rows in series.items():  # named in the first row that has a mark
        marked = rows["high"].dropna()
        if len(marked):
            row = len(rows) - 1 - rows.index.get_loc(marked.index[0])
            if styles[place].hollow:  # to the right of its mark, the other to the left
                end, shift, right, ha = marked.iloc[0], -0.18, 4, "left"
            else:
                end, shift, right, ha = rows["low"].loc[marked.index[0]], 0.18, -4, "right"
            plots.annotate(ax, end, row + shift, str(place), colours[0], right, ha=ha)
    ax.set_xlim(left=ax.get_xlim()[0] - 5)  # room for the name on the left
    return figure


def tabulate_methods(comparison: pd.DataFrame, frame: pd.DataFrame, place: str) -> pd.DataFrame:
    """Tabulate all methods in one partition: both accuracies, their differences to MD with Holm's p, and the cost.

    Args:
        comparison: as `tables.compare_methods` returns it.
        frame: the runs in this partition.
        place: the partition's name.
    """
    part, rows = comparison[comparison["place"] == place], []
    for m in METHOD_ORDER:
        cells = [METHOD_NAMES[m]]
        for metric in METRICS:
            row = part[(part["method"] == m) & (part["metric"] == metric)].iloc[0]
            cells += [statistics.format_plus_minus(row["mean"], row["mean_low"], row["mean_high"])]
            cells += [
                statistics.format_plus_minus(row["difference"], row["low"], row["high"], "+.1f")
            ]
            cells += [statistics.format_p(row["holm"])]
        rows.append([*cells, ", ".join(f"{x:.2f}" for x in tables.relative_cost(frame, m, "md"))])
    heads = [f"{k}: {n}" for k in ("global", "clients'") for n in ("mean", "against MD", "p")]
    return pd.DataFrame(rows, columns=["method", *heads, "bytes, examples (MD: 1)"])


def format_distance(gap: tuple[float, float, float]) -> str:
    """Format a difference and its interval without signs, as `15.0 points (11.5 to 18.5)`.

    Raises:
        ValueError: where the interval contains zero, for then the sign is open.
    """
    _, low, high = gap
    if low <= 0 <= high:
        raise ValueError(
            f"the interval from {low:g} to {high:g} contains zero: `statistics.format_points` shows its signs"
        )
    mean, *ends = np.abs(gap)
    return statistics.format_interval(mean, *sorted(ends)).replace(" ", " points ", 1)


def tabulate_servers(
    tuned: pd.DataFrame, baselines: pd.DataFrame, chosen: dict[str, Variant]
) -> pd.DataFrame:
    """Tabulate FedProx and the adaptive servers: the values tried and chosen, and the difference to their baseline.

    Args:
        tuned: the runs with the chosen values.
        baselines: the same runs and those of MD and FedAvg.
        chosen: the variant that was chosen of each method.
    """
    rows = []
    for m, (key, values) in experiments.SERVER_VALUES.items():
        base = "md" if key == "prox" else "fedavg"
        accuracy = tables.summarise(tuned[tuned["method"] == m], GLOBAL)
        formatted = "–"
        if m in accuracy.index:
            formatted = statistics.format_plus_minus(*accuracy.loc[m, ["mean", "low", "high"]])
        difference, _ = tables.describe_difference(baselines, m, base)
        rows.append(
            {
                "method": METHOD_NAMES[m],
                "tuned": {"prox": "$\\mu$"}.get(key, "server rate"),
                "tried": ", ".join(f"{v:g}" for v in values),
                "chosen": str(chosen[m].get(key)) if m in chosen else tables.NOT_RECORDED,
                "global (%)": formatted,
                "difference": f"{difference} to {METHOD_NAMES[base]}",
            }
        )
    return pd.DataFrame(rows)


# Cost


COST_METHODS = ("md", "fedavg", "clustered-similarity", "fedsts", "fedstas", "fedstas-unbiased")
UNITS = ("megabytes", "thousands")


def tabulate_costs(frames: dict[str, pd.DataFrame], goal: float = 0.6) -> pd.DataFrame:
    """Tabulate what COST_METHODS cost in all rounds, and until their mean curve reaches a goal.

    Args:
        frames: by the partition's name, the runs.
        goal: accuracy on the global test set, a share.
    """
    rows = []
    for place, frame in frames.items():
        last = frame[frame["round"] == frame["rounds"]].groupby("method").mean(numeric_only=True)
        peak = frame.groupby(["method", "seed"])[GLOBAL].max()
        until = {u: tables.cost_to_reach(frame, GLOBAL, goal, u) for u in UNITS}
        for m in COST_METHODS:
            megabytes, thousands = (
                "never" if np.isnan(until[u][m]) else f"{until[u][m]:,.0f}" for u in UNITS
            )
            rows.append(
                {
                    "partition": place.replace(" ", "\u00a0"),
                    "method": METHOD_NAMES[m],
                    "MB": f"{last.loc[m, 'megabytes']:,.0f}",
                    "thousand examples": f"{last.loc[m, 'thousands']:,.0f}",
                    "seconds on one core": f"{last.loc[m, 'seconds']:.0f}",
                    f"MB to {goal:.0%}": megabytes,
                    f"thousands to {goal:.0%}": thousands,
                    f"seeds that reach {goal:.0%}": f"{(peak[m] >= goal).sum()} of {len(peak[m])}",
                }
            )
    return pd.DataFrame(rows)


# One setting at a time


SETTINGS = {  # by key: the row's name, the default, the method whose runs it shows
    "steps": ("local steps", 3, "fedstas-unbiased"),
    "clients_per_round": ("clients a round", 10, "fedstas-unbiased"),
    "strata": ("strata H", 10, "fedstas-unbiased"),
    "concentration": ("concentration", 0.01, "fedstas-unbiased"),
    "levels": ("levels d'", 9, "fedstas-unbiased"),
    "restratify_every": ("age of strata", 10, "fedstas-unbiased"),
    "rate": ("share of data q", 1.0, "fedstas-unbiased"),
    "n_star": ("sample n*, as written", 2048, "fedstas"),
}


def accuracy_by_setting(by_variant: pd.DataFrame) -> pd.DataFrame:
    """Return the mean final accuracy at each value of each setting: columns key, value, method, mean, low, high.

    Args:
        by_variant: columns variant, method, mean, low, high.
    """
    rows = []
    for key, (_, default, method) in SETTINGS.items():
        for value in sorted({default, *experiments.SENSITIVITY_VALUES[key][0]}):
            variant = Variant() if value == default else Variant.of(**{key: value})
            level = by_variant[
                (by_variant["variant"] == variant) & (by_variant["method"] == method)
            ]
            rows += [(key, value, method, *ends) for ends in level[["mean", "low", "high"]].values]
    return pd.DataFrame(rows, columns=["key", "value", "method", "mean", "low", "high"])


def draw_setting_ranges(accuracies: pd.DataFrame) -> Figure:
    """Draw a dot for the accuracy at each value of a setting, a row for each setting; the values with the least and the
    most accuracy are named, and the default is black.

    Args:
        accuracies: as `accuracy_by_setting` returns them.
    """
    figure, ax = plt.subplots(figsize=(plots.WIDTH, 3.4))
    settings = {key: SETTINGS[key] for key in SETTINGS if key in set(accuracies["key"])}
    colours = [plots.method_style(method).colour for _, _, method in settings.values()]
    ranges = accuracies.groupby("key")["mean"].agg(mean="median", low="min", high="max")
    span = ranges.loc[[*settings]].set_axis([name for name, _, _ in settings.values()])
    no_dots = {"": plots.Style(plots.GREY, marker=" ")}
    plots.intervals(ax, {"": span}, no_dots, colours=colours)
    ax.tick_params(axis="y", labelcolor="black")
    for y, (key, (_, default, method)) in enumerate(reversed(settings.items())):
        part = accuracies[accuracies["key"] == key]
        colour = plots.method_style(method).colour
        tones = np.where(part["value"] == default, "black", colour)
        ax.scatter(part["mean"], [y] * len(part), c=tones, s=25, zorder=3)
        low, high = (part.loc[part["mean"].agg(end)] for end in ("idxmin", "idxmax"))
        plots.annotate(ax, low["mean"], y, f"{low['value']:g}", "black", -6, ha="right")
        plots.annotate(ax, high["mean"], y, f"{high['value']:g}", "black", 6)
    ax.set_xlabel("final accuracy, global test set (%)")
    ax.margins(x=0.12)
    return figure


def tabulate_gains_by_setting(around: pd.DataFrame) -> pd.DataFrame:
    """Tabulate the corrected method against MD along the settings that both have.

    Args:
        around: the runs of the sweep `sensitivity` and those of the default settings.
    """
    rows = []
    for key in ("clients_per_round", "steps", "concentration"):
        label, default, _ = SETTINGS[key]
        for value in sorted({default, *experiments.SENSITIVITY_VALUES[key][0]}):
            variant = Variant() if value == default else Variant.of(**{key: value})
            part = around[around["variant"] == variant]
            rows.append((label, f"{value:g}", tables.describe_gain(part, "fedstas-unbiased", "md")))
    return pd.DataFrame(rows, columns=["setting", "value", "corrected method against MD"])


def compare_strata(more: pd.DataFrame, around: pd.DataFrame) -> pd.DataFrame:
    """Compare as many strata as participants with ten strata, at the same participants and seeds.

    Args:
        more: the runs of the sweep `more-strata`.
        around: the runs of the sweep `sensitivity`, of which those with ten strata are taken.

    Returns:
        One row per method and number of participants, which are its index: final accuracy with ten strata (ten) and with
        more (more), their difference in points with its 95 % interval low to high, the number of seeds, and in multiples
        of ten strata the distinct participants, bytes and examples.
    """
    rows = {}
    pairs = product(experiments.STRATIFIED_METHODS, experiments.MORE_STRATA)
    for method, m in pairs:
        variants = {
            "ten": (around, Variant.of(clients_per_round=m)),
            "more": (more, Variant.of(clients_per_round=m, strata=m)),
        }
        both = pd.concat(
            runs[(runs["variant"] == variant) & (runs["method"] == method)].assign(method=strata)
            for strata, (runs, variant) in variants.items()
        )
        difference = tables.paired_differences(both, GLOBAL, "ten").drop(columns="p").loc["more"]
        sent, processed = tables.relative_cost(both, "more", "ten")
        distinct = both.groupby("method")["participants"].mean()
        costs = {"participants": distinct["more"] / distinct["ten"]}
        costs |= {"bytes": sent, "examples": processed}
        levels = tables.summarise(both, GLOBAL)["mean"]
        rows[method, m] = levels.to_dict() | difference.to_dict() | costs
    return pd.DataFrame.from_dict(rows, orient="index")


def tabulate_strata(compared: pd.DataFrame) -> pd.DataFrame:
    """Tabulate what `compare_strata` returns: accuracy with ten strata, and what more of them change."""
    rows = []
    for (method, m), row in compared.iterrows():
        difference = statistics.format_interval(*row[["difference", "low", "high"]], "+.2f")
        costs = f"{row['bytes']:.2f} and {row['examples']:.2f}"
        rows.append((METHOD_NAMES[method], m, f"{row['ten']:.1f}", difference, costs))
    heads = ["method", "*m*", "*H* = 10 (%)", "*H* = *m*, points", "bytes and examples"]
    return pd.DataFrame(rows, columns=heads)


def select_by_batch(
    batches: pd.DataFrame, around: pd.DataFrame, least_variance: tables.RecordedSweep
) -> dict[int, pd.DataFrame]:
    """Return the runs of each batch size, at the same methods and seeds.

    Args:
        batches: the runs with other batches than 128.
        around: runs with batches of 128, of which those of the same methods are taken.
        least_variance: the sweep with the runs of least variance, with batches of 128.
    """
    usual = around[
        (around["variant"] == Variant()) & around["method"].isin(experiments.BATCH_SIZE_METHODS)
    ]
    where = {
        "task": "mnist",
        "partition": "dirichlet",
        "variant": Variant(),
        "clients_per_round": 10,
    }
    runs = least_variance.where(**where)
    usual = pd.concat([usual, runs[runs["seed"].isin(usual["seed"])]])
    by_size = {
        b: batches[batches["variant"] == Variant.of(batch=b)] for b in experiments.BATCH_SIZES
    }
    return dict(sorted((by_size | {128: usual}).items()))


def tabulate_batch_sizes(by_batch: dict[int, pd.DataFrame]) -> pd.DataFrame:
    """Tabulate the final accuracy by the batch size, of the runs that `select_by_batch` returns."""
    rows, others = [], experiments.BATCH_SIZE_METHODS[1:]
    for b, part in by_batch.items():
        level = tables.summarise(part, GLOBAL).reindex(["md"])
        cells = [statistics.format_plus_minus(*level.loc["md", ["mean", "low", "high"]])]
        rows.append((str(b), *cells, *(tables.describe_gain(part, m, "md") for m in others)))
    heads = ["batch", "MD (%)", *(f"{METHOD_NAMES[m]} against MD" for m in others)]
    return pd.DataFrame(rows, columns=heads)


def accuracy_change_by_batch(by_batch: dict[int, pd.DataFrame]) -> float:
    """Return by how many points the batch size changes MD's accuracy or a difference to it, at most."""
    rows = []
    for part in by_batch.values():
        means = tables.pivot_seeds(part, GLOBAL).mean()
        rows.append((means - means["md"]).to_dict() | {"md": means["md"]})
    changes = pd.DataFrame(rows)
    return float((changes.max() - changes.min()).max())


def select_allocations(
    optimal_data: tables.RecordedSweep, preprint: tables.RecordedSweep
) -> dict[str, pd.DataFrame]:
    """Return by partition the runs of FedSTaS with n* allocated optimally and with one rate for all, at the same seeds."""
    optimal, usual = optimal_data.frame, preprint.where(method="fedstas")
    usual = usual[usual["round"] % 9 == 0]
    selected = {}
    for kind in PARTITIONS:
        runs, baseline = (f[f["partition"] == kind] for f in (optimal, usual))
        selected[kind] = (
            pd.concat([runs, baseline[baseline["seed"].isin(runs["seed"])]])
            if len(runs)
            else baseline
        )
    return selected


def tabulate_allocations(allocations: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Tabulate FedSTaS and what optimal allocation changes, by partition, of the runs of `select_allocations`."""
    rows = []
    for kind, part in allocations.items():
        level = statistics.mean_interval(tables.pivot_seeds(part, GLOBAL)["fedstas"])
        gain = tables.describe_gain(part, experiments.OPTIMAL_DATA_METHOD, "fedstas")
        rows.append((PARTITIONS[kind], statistics.format_plus_minus(*level), gain))
    return pd.DataFrame(rows, columns=["partition", "FedSTaS (%)", "with optimal allocation"])


def add_rates(grid: tables.RecordedSweep) -> pd.DataFrame:
    """Return the runs of a sweep with a column `rate`, the learning rate of their steps."""
    return grid.frame.assign(rate=[f"{variant.get('lr'):g}" for variant in grid.frame["variant"]])


def tabulate_equal_sizes(
    rates: tables.RecordedSweep, five: tables.RecordedSweep
) -> tuple[pd.DataFrame, str]:
    """Tabulate CIFAR-100 at concentration 0.1 with equal sizes, a row for each method and learning rate.

    Args:
        rates: one seed of every method and rate, by which the rates are chosen.
        five: five other seeds of every method at its best rate.

    Returns:
        The table: final loss and accuracy of the one seed, the accuracy of the five, and its difference to MD's at MD's
        best rate; and a note on the runs that are not recorded.
    """
    trials, runs, rows = add_rates(rates), add_rates(five), []
    last = tables.select_final_rounds(trials).set_index(["method", "rate"])[["train_loss", GLOBAL]]
    md = runs[runs["method"] == "md"]
    for method, rate in product(
        experiments.EQUAL_SIZES_METHODS, map("{:g}".format, experiments.EQUAL_SIZES_RATES)
    ):
        is_recorded = ((trials["method"] == method) & (trials["rate"] == rate)).any()
        end = last.loc[method, rate] if (method, rate) in last.index else None
        trial = "diverged" if is_recorded else "–"
        if end is not None:
            trial = f"{end['train_loss']:.3f}\u00a0nats, {100 * end[GLOBAL]:.1f}\u00a0%"
        part = runs[(runs["method"] == method) & (runs["rate"] == rate)]
        accuracy = tables.summarise(part, GLOBAL).reindex([method])
        gain = ""
        if method != "md" and len(part):
            gain = tables.describe_gain(pd.concat([part, md]), method, "md")
        mean = statistics.format_plus_minus(*accuracy.loc[method, ["mean", "low", "high"]])
        rows.append((METHOD_NAMES[method], rate, trial, mean, gain))
    columns = [
        "method",
        "rate",
        "trial on one seed: loss, accuracy",
        "five other seeds (%)",
        "against MD",
    ]
    missing = " ".join(dict.fromkeys(g.note for g in (rates, five) if g.note))
    return pd.DataFrame(rows, columns=columns), missing


def equal_size_trials(rates: tables.RecordedSweep) -> dict[str, float]:
    """Return the training loss (nats) at the end of least variance's trials, and its accuracy and MD's in %.

    `equal_chosen` is of the rate that was chosen for it; `equal_near` and the accuracies are of the others' rate.
    """
    least_variance, other = (
        experiments.EQUAL_SIZES_METHODS[-1],
        f"{experiments.EQUAL_SIZES_TUNED['md']['lr']:g}",
    )
    chosen_rate = f"{experiments.EQUAL_SIZES_TUNED[least_variance]['lr']:g}"
    ends = tables.select_final_rounds(add_rates(rates)).set_index(["method", "rate"])
    return {
        "equal_chosen": ends.loc[(least_variance, chosen_rate), "train_loss"],
        "equal_near": ends.loc[(least_variance, other), "train_loss"],
        "equal_accuracy": 100 * ends.loc[(least_variance, other), GLOBAL],
        "equal_accuracy_md": 100 * ends.loc[("md", other), GLOBAL],
    }


def format_equal_size_gaps(differences: dict[str, tuple[float, float, float]]) -> dict[str, str]:
    """Format how far each method is below MD where all clients have the same size.

    Args:
        differences: by method, the difference to MD and the ends of its interval, in points.

    Returns:
        By the name that the chapter gives the number, such as `equal_fedstas_unbiased`, the distance as text.
    """
    return {f"equal_{m.replace('-', '_')}": format_distance(gap) for m, gap in differences.items()}


# Privacy


def draw_privacy(by_variant: pd.DataFrame) -> Figure:
    """Draw the final accuracy over epsilon, which falls to the right: a panel for each method, in it a line for each
    size cap, named at its end, and a labelled line for the method without privacy."""
    parts = {
        "FedSTaS as written: a fresh report a round": ("fedstas-dp", "fedstas"),
        "corrected FedSTaS: one report for good": ("fedstas-unbiased-dp", "fedstas-unbiased"),
    }
    plain = by_variant[by_variant["variant"] == Variant()].set_index("method")["mean"]
    settings = {
        key: by_variant["variant"].map(lambda v, key=key: v.get(key))
        for key in ("epsilon", "size_cap")
    }
    runs = by_variant.assign(**settings)
    offsets = dict(zip(experiments.CAPS, (1, 1.05, 0.95), strict=True))  # bars beside each other

    def draw(ax: Axes, pair: tuple[str, str]) -> None:
        """Draw the accuracy over epsilon for each cap into a panel."""
        method, without_privacy = pair
        lines, ends, colour = {}, {}, plots.method_style(method).colour
        for cap, offset in offsets.items():
            rows = runs[(runs["method"] == method) & (runs["size_cap"] == cap)]
            x = offset * rows["epsilon"].astype(float)
            line = rows.set_index(x)[["mean", "low", "high"]].sort_index(ascending=False)
            lines[f"M = {cap}"] = line
            if len(line):
                ends[f"M = {cap}"] = (0.42, line["mean"].iloc[-1], colour)
        styles = {n: plots.Style(colour, d) for n, d in zip(lines, ("-", "--", ":"), strict=True)}
        axis = {"xscale": "log", "ylim": (28, 84)}
        plots.curves(ax, lines, styles, band="bars", width=1.5, names=False, **axis)
        ax.axhline(plain[without_privacy], color="black", lw=1)
        ends["without privacy"] = (0.42, plain[without_privacy], "black")
        ax.set_xlim(12, 0.42)
        ax.set_xticks(experiments.EPSILONS, [f"{e:g}" for e in experiments.EPSILONS])
        ax.minorticks_off()
        plots.name_ends(ax, ends)

    figure = plots.panels(draw, parts, height=2.4, columns=2, sharey=True)
    for ax in figure.axes:
        ax.set_xlabel("ε of a report: more privacy to the right")
    figure.axes[0].set_ylabel("test accuracy (%)")
    return figure


# Parts of the corrected method


CORRECTED_METHOD = "the corrected method"


def name_parts(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the runs of the sweep `ablation`, their method called by the part that is exchanged."""
    names = {
        (m, Variant.of(**settings)): name for name, (m, settings) in experiments.ABLATIONS.items()
    }
    pairs = zip(frame["method"], frame["variant"], strict=True)
    return frame.assign(method=[names.get(pair) for pair in pairs])


def tabulate_parts(parts: pd.DataFrame, change: pd.DataFrame) -> pd.DataFrame:
    """Tabulate the parts that are exchanged: accuracy, difference to the corrected method, Holm's p, and relative cost.

    Args:
        parts: as `name_parts` returns them.
        change: by part, the paired difference to the corrected method, as `tables.paired_differences` returns it.
    """
    accuracy, rows = tables.summarise(parts, GLOBAL), []
    holm_p = pd.Series(statistics.holm(change["p"]), change.index)
    for name in (n for n in experiments.ABLATIONS if n in change.index):
        difference = change.loc[name, ["difference", "low", "high"]]
        cost = tables.relative_cost(parts, name, CORRECTED_METHOD)
        rows.append(
            {
                "exchanged": name,
                "accuracy (%)": statistics.format_plus_minus(
                    *accuracy.loc[name, ["mean", "low", "high"]]
                ),
                "difference": statistics.format_plus_minus(*difference, "+.1f"),
                "p (Holm)": statistics.format_p(holm_p[name]),
                "bytes, examples (whole: 1)": "{:.2f}, {:.2f}".format(*cost),
                "seeds": str(int(change.loc[name, "seeds"])),
            }
        )
    return pd.DataFrame(rows)


def part_changes(parts: pd.DataFrame, change: pd.DataFrame) -> dict[str, object]:
    """Return what exchanging a part changes, as `part_uniform`, and its bytes as a multiple, as `part_uniform_sent`.

    Args:
        parts, change: as for `tabulate_parts`.
    """
    quoted = {
        "uniform": "p uniform",
        "size": "p by size",
        "cheap": "a tenth of the data, strata frozen",
    }
    values: dict[str, object] = {}
    for key, part in quoted.items():
        values[f"part_{key}"] = statistics.format_interval(
            *change.loc[part, ["difference", "low", "high"]], "+.1f"
        )
        sent, _ = tables.relative_cost(parts, part, CORRECTED_METHOD)
        values[f"part_{key}_sent"] = sent
    return values


# This machine


def run_live(task, s) -> pd.DataFrame:
    """Train the first methods with the chapter's settings and seeds.

    Args:
        task: the data.
        s: the chapter's settings.

    Returns a row for each evaluation; `usual` is true where a run with these settings is recorded.
    """
    settings = {k: getattr(s, k) for k in ("strata", "levels", "n_star", "size_cap", "epsilon")}
    settings["lr"] = 0.1 if s.task == "digits" else 0.01  # the digits have 42 times fewer examples
    runs = []
    for i in range(s.seed, s.seed + s.seeds):
        federation = partition.dirichlet(task.train_y, s.clients, s.concentration, i)
        m = min(s.clients_per_round, len(federation.with_data))
        options = {"rounds": s.rounds, "eval_every": max(1, s.rounds // 50)}
        options |= {"clients_per_round": m, "seed": i, "device": s.device}
        recorded_setting = (s.task, s.clients, m, s.concentration) == ("mnist", 100, 10, 0.01)
        for name in experiments.MAIN_METHODS:
            parameters = {"lr", *methods.parameters(name)}
            method = methods.get(name, **{k: v for k, v in settings.items() if k in parameters})
            history = simulation.run(task, federation, method, **options)
            usual = recorded_setting and method == methods.get(name)
            about = {"method": name, "seed": i, "rounds": s.rounds, "usual": usual}
            runs.append(history.frame.assign(**about))
    return pd.concat(runs)


def draw_live_runs(ends: pd.DataFrame) -> Figure:
    """Draw the final accuracy of the live runs over their seeds, a line for each method, named at its end.

    Args:
        ends: final accuracy (%), a row for each seed and a column for each method.
    """
    figure, ax = plt.subplots(figsize=(plots.WIDTH, 2.9))
    styles = {m: plots.method_style(m) for m in ends.columns}
    styles = {m: style._replace(marker="o", label=METHOD_NAMES[m]) for m, style in styles.items()}
    axis = {"xlabel": "seed", "ylabel": "test accuracy (%)", "xticks": list(ends.index)}
    plots.curves(ax, {m: ends[m] for m in ends.columns}, styles, width=1.2, **axis)
    ax.margins(x=0.05)
    return figure


def describe_scatter(ends: pd.DataFrame) -> str:
    """State the standard deviation over seeds of a method's live runs, on average over the methods.

    Args:
        ends: final accuracy (%), a row for each seed and a column for each method.
    """
    if len(ends) < 2:
        return "One seed shows no scatter."
    sd = ends.std().mean()
    return f"Over {len(ends)} seeds a method's runs have a standard deviation of {sd:.1f} points."


def describe_repeated_runs(live: pd.DataFrame, recorded: pd.DataFrame) -> str:
    """State whether live runs that are also recorded agree with the records.

    Args:
        live: as `run_live` returns them.
        recorded: the recorded runs.
    """
    same = live[live["usual"]]
    if not len(same):
        return "These settings are not among the recorded ones, so there is nothing to compare them with."
    same = same.merge(recorded, on=["method", "seed", "round"], suffixes=("", "_recorded"))
    gap = 100 * (same[GLOBAL] - same[f"{GLOBAL}_recorded"]).abs()
    gap = gap.groupby([same["method"], same["seed"]]).max()
    exact, near = int((gap == 0).sum()), int((gap <= 0.5).sum())
    return (
        f"{len(gap)} of these runs are recorded, too: {exact} agree in every round's accuracy bit for bit, {near} within "
        f"half a point (largest difference {gap.max():.2f})."
    )
