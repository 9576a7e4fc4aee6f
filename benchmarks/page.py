"""The tables of benchmarks/README.md and the book's paragraph on speed, from the recorded seconds: `python -m benchmarks.page`."""

from __future__ import annotations

import json
from pathlib import Path

from fedstas.stratification import COLUMNS, LARGE

HERE = Path(__file__).resolve().parent
PARAGRAPH = HERE.parent / "book" / "speed.md"
NAMES = {
    "plain": "everyone's loop (`plain`)",
    "lean": "a lean loop (`lean`)",
    "flower": "Flower's simulation",
    "flower-default": "Flower's simulation as it comes",
    "pfl": "pfl-research",
    "jax": "JAX, compiled",
    "compile": "torch.compile",
    "matmul": "the arithmetic of its gradients",
    "sort": "`numpy.sort`",
    "kmeans": "one start of KMeans",
    "authors": "the authors' way",
}
INTRO = """# Speed

How fast the simulator is, as ratios within one run: both sides take turns on the same input, after it was checked
that they compute the same. A ratio is the median of the other's seconds over the median of ours, so above 1 we
are faster; the range is over the repeats. float32, one thread; evaluation is excluded unless said. Seconds are
of the processor, except beside frameworks, where both sides are on the wall. Flower gives a client
one CPU, so that both cores train (we use one); or two, with two threads and one client at a time, as it does
unless told otherwise. JAX compiles a whole round of the perceptron, and one local step of the CNN, since in a
compiled loop its convolutions take minutes on a CPU. torch.compile compiles one local step: of all clients at once
for the perceptron, of one client for the CNN. Both were kept on one core; compiling is left out.

`plain` is what everyone writes: a DataLoader, a deep copy of the model and an optimiser object for each client.
`lean` is a loop over clients without overhead: resident tensors, one gather for a client, no module. For the CNN,
ours is such a loop, too, but lays out images with the channels innermost, which `lean` does not. Models, data,
clients and batches are the same on all sides. This page is made by `python -m benchmarks.page` from
`benchmarks/results/`; `python -m benchmarks --json FILE` makes the figures again, with MNIST where
`FEDSTAS_DATA` holds it. {gpu}

The newest section comes first, and each is of the code of its date. Between the two, bit for bit the same results:
squeezing became 1.5 times as fast (0.51 to 0.33 ms a gradient, in turns on the Intel machine), local training of ten
clients 1.2 times (9.9 to 8.1 ms) and of 100 clients of 6 examples 1.3 times (18.3 to 14.3 ms), since passes are now
as large as the processor's cache allows. Where a processor multiplies matrices faster, the ratios to its arithmetic
are worse, and ratios to sorting where numpy sorts with AVX-512. The project asks of itself 30 times Flower's
simulation, 3 times the arithmetic of a round, and 3.5 times `lean` for 100 clients of 6: the first is
missed on both machines, the other two on the Intel one.

Where a round of `fedstas` goes that makes its strata anew (MNIST, 100 clients of 600; each part in turn in one process on a
busy AMD machine, so read the shares): gradients 46 %, squeezing 12 %, the points of k-means 12 %, their spread 5 %, k-means 4 %,
local training 4 %, norms 2 %, restoring 1 %. Twice the arithmetic would leave next to nothing for all that is not a gradient, since the
products of a client's own shapes take 1.4 times (AMD) and 1.8 times (Intel) what large ones take. Evaluation is most of a recorded run: the
loss of all 60,000 training images took 139 ms there beside the 20 ms of a cohort's local training, and nine tenths of it are matrix products;
`eval_every` saves it, nothing else does without other bits. The AMD machine was busy, too, when `strata` was measured.
"""


NO_GPU = """Only the CPU was measured: no GPU figure was taken. `make gpu`, which compares a GPU with the CPU
(cohorts, accuracy, seconds a round) and puts what it finds on this page, was never run on one. Some runs of `results/comparison`
were recorded on a GPU of another machine, an NVIDIA H100; their seconds are no benchmark, since no CPU took turns with it."""


def table(head: list[str], rows: list[list[str]]) -> str:
    """Format a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def milliseconds(value: float) -> str:
    """Format seconds as milliseconds."""
    return f"{1000 * value:,.0f}" if value >= 1 else f"{1000 * value:.3g}"


def section(results: list[dict]) -> str:
    """Format the tables of one machine."""
    first = results[0]
    dates = sorted({r["date"] for r in results})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    parts = [
        f"## {first['machine']}\n\nMachine: {first['machine']}; {first['threads']} thread; "
        f"torch {first['torch']}; {when}.\n"
    ]
    ratios = [r for r in results if r["low"] is not None]
    rows = [
        [
            f"`{r['name']}`",
            NAMES.get(r["against"], r["against"]),
            f"**{r['ratio']:.2f}**",
            f"{r['low']:.2f} to {r['high']:.2f}",
            str(r["repeats"]),
            milliseconds(r["seconds"]),
            r["workload"],
        ]
        for r in ratios
    ]
    head = ["benchmark", "against", "ratio", "range", "repeats", "ours, ms", "workload"]
    if rows:
        parts.append(table(head, rows))
    for r in ratios:
        if "times_arithmetic" in r:
            parts.append(
                f"A full round of `fedstas` takes {r['times_arithmetic']:.2f} times the arithmetic of its gradients at "
                f"{r['rate_gmac']:.0f} thousand million multiply-adds a second, the rate of 1024 x 1024 products; the same "
                f"products in their own shapes take {milliseconds(r['seconds_own_products'])} ms of "
                f"{milliseconds(r['seconds'])} ms, all gradients {milliseconds(r['seconds_gradients'])} ms.\n"
            )
        elif r.get("share_of_matmul") and r["against"] == "lean":
            parts.append(
                f"`{r['name']}` ({r['workload']}) runs at {r['share_of_matmul']:.0%} of the matrix-product rate.\n"
            )
    for r in ratios:
        if "profile" in r and r["against"] == "lean":
            shares = ", ".join(f"{k} {v:.0%}" for k, v in r["profile"].items())
            parts.append(
                f"Where the time of `{r['name']}` goes: {shares}. Products are convolutions and linear layers; the others "
                "move memory, and the convolutions' own rate is the remaining distance.\n"
            )
    sorts = [r for r in ratios if r["name"] == "squeeze" and r["against"] == "sort"]
    if sorts:
        times = ", and ".join(
            f"{1 / r['ratio']:.1f} times"
            + (" without AVX-512" if "without" in r["workload"] else " on this processor")
            for r in sorts
        )
        parts.append(
            f"Squeezing a gradient takes as long as sorting it {times}. About a third of it is a dynamic programme over 128 "
            "candidate cuts; fewer of them are faster and end farther from the optimum.\n"
        )
    parts += scaling([r for r in results if r["name"].startswith("scale")])
    parts += ten_thousand([r for r in results if r["name"] == "large"])
    parts += strata([r for r in results if r["name"] == "strata"])
    methods = [r for r in results if r["name"] == "method"]
    if methods:
        what = methods[0]
        parts.append(
            f"### {what['rounds']} rounds of every method\n\n{what['workload']}; one thread of the machine above.\n"
        )
        rows = [[f"`{r['against']}`", f"{r['seconds']:.1f}"] for r in methods]
        parts.append(table(["method", "seconds"], rows))
    for r in ratios:
        if r["against"] == "authors":
            parts.append(
                f"One round of FedSTaS computed the authors' way takes **{r['ratio']:.0f}** times as long as ours, both with "
                "the loss of all training sets: a loader per client, ten starts of scikit-learn's KMeans for each "
                "gradient, and every training set evaluated through its loader again. It was written anew from a "
                "description of the released code as of today, which makes strata in each round; the December version "
                "made them once.\n"
            )
    return "\n".join(parts)


def scaling(results: list[dict]) -> list[str]:
    """Format the cost against N, d and m."""
    if not results:
        return []
    parts = [
        "### Scale\n\nAgainst N (6 examples each; once, cold) and d (10 clients of 60): strata made anew, by what the "
        "designs call; against m: local training. The exponent is the slope of the logarithms over the whole row group; "
        "with 10 clients a fixed cost flattens the one of d. Memory is a bound counted from the code, in bytes beyond the "
        f"data: up to N d = {LARGE / 1e6:.0f} million entries 2^28 + 13 N d + 24 N², beyond that "
        f"2^28 + N d + max(N d, 32 N² + {20 * COLUMNS:,} N), since then the N x d matrix of numbers never exists.\n",
    ]
    rows = [
        [
            r["name"].removeprefix("scale-"),
            str(r["N"]),
            str(r["d"]),
            str(r["m"]),
            milliseconds(r["seconds"]),
            f"{r['exponent']:.2f}",
            f"{r['memory'] / 2**20:.0f}" if r["memory"] else "",
        ]
        for r in results
    ]
    head = ["grows", "N", "d", "m", "ms", "exponent", "memory, MiB"]
    return [*parts, table(head, rows)]


def strata(results: list[dict]) -> list[str]:
    """Format seconds, variance and memory of the search for strata of least variance."""
    if not results:
        return []
    rows = [
        [
            f"{r['N']:,}",
            str(r["m"]),
            f"{r['seconds']:.3f}",
            f"{r['ratio'] * r['seconds']:.3f}",
            f"{r['share_ours']:.4f}",
            f"{r['share_kmeans']:.4f}",
            f"{r['memory'] / 2**20:.0f}",
        ]
        for r in results
    ]
    head = ["N", "m", "s", "k-means, s", "variance", "k-means, variance", "memory, MiB"]
    return [
        "### Strata of least variance\n\nThe search of `max_cut_strata` for N clients of 64 coordinates, beside one start of scikit-learn's "
        "k-means. The variance is that of one draw from each of the m strata, over that of m draws with replacement. Memory is the "
        "most that the search holds beyond its arguments.\n",
        table(head, rows),
    ]


def ten_thousand(results: list[dict]) -> list[str]:
    """Format the cost of one stratification of very many clients."""
    return [
        f"**{r['N']:,} clients.** One stratification ({r['workload']}; {r['d']:,} parameters) took {r['seconds']:.0f} s on the wall: "
        + ", ".join(f"{k} {v:.0f} s" for k, v in r["parts"].items())
        + f". Beyond the data it held {r['measured'] / 2**30:.1f} GiB at most; the bound is {r['memory'] / 2**30:.1f} GiB.\n"
        for r in results
    ]


def gpu_section(report: dict) -> str:
    """Format what `benchmarks.gpu` measured as a section of the README."""
    parts = [
        f"## {report['device']}\n\nBeside it: {report['cpu']}, one thread; torch {report['torch']}; {report['date']}. "
        "Seconds are of the wall.\n"
    ]
    rows = [
        [
            r["task"],
            f"`{r['method']}`",
            str(r["rounds"]),
            "equal"
            if r["cohorts_differ_in"] is None
            else f"differ from round {r['cohorts_differ_in']}",
            f"{100 * r['accuracy_gap']:+.2f}",
            f"{1000 * r['seconds_device']:.1f}",
            f"{1000 * r['seconds_cpu']:.1f}",
        ]
        for r in report["checks"]
        if r["what"] == "beside the CPU"
    ]
    head = ["task", "method", "rounds", "cohorts", "accuracy, points", "ms a round", "on the CPU"]
    parts.append(table(head, rows))
    for r in report["checks"]:
        if r["what"] == "chapter 5":
            parts.append(f"`{r['command']}` took {r['seconds']:.0f} s.\n")
        if r["what"] == "re-stratified":
            parts.append(
                f"{r['rounds']} rounds of FedSTaS on {r['task']}, strata made anew in each, took {r['seconds']:.0f} s; "
                f"its arithmetic takes {r['bound']:.0f} s at the rate of matrix products there.\n"
            )
    return "\n".join(parts)


def text(folder: Path) -> str:
    """Make the README."""
    recorded = [
        json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))
    ]
    newest = sorted(filter(None, recorded), key=lambda results: results[0]["date"], reverse=True)
    gpu, devices, more = folder.parent / "gpu.json", NO_GPU, []
    if gpu.exists():
        devices = "The sections are of the CPU, but the last."
        more = [gpu_section(json.loads(gpu.read_text(encoding="utf-8")))]
    return "\n".join([INTRO.replace("{gpu}", devices), *map(section, newest), *more])


def paragraph(folder: Path) -> str:
    """Make the book's page, with the newest figures."""
    recorded = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")]
    newest = max(filter(None, recorded), key=lambda results: results[0]["date"])

    def ratio(name: str, against: str) -> float:
        return next(r["ratio"] for r in newest if (r["name"], r["against"]) == (name, against))

    ours = next(r["seconds"] for r in newest if r["name"] == "round-mnist")
    return f"""# Speed

The simulator is fast because it trains all participants of a round in one pass, not client by client. A round of MNIST with ten of 100 clients and 600 images each takes {milliseconds(ours)} ms of
one core ({newest[0]["machine"]}). Other ways take longer for the same round:

| way to compute a round of MNIST | time, ours = 1 |
| --- | --- |
| a loop without any overhead | {ratio("round-mnist", "lean"):.1f} |
| pfl-research | {ratio("round-mnist", "pfl"):.1f} |
| the loop that everyone writes | {ratio("round-mnist", "plain"):.1f} |
| Flower's simulation | {ratio("round-mnist", "flower"):.0f} |

Flower also does more, because it is made for real machines ({{doc}}`chapters/08_federation`). On colour images
convolutions and pooling are nearly all of the work, and Flower takes only {ratio("round-cifar", "flower"):.1f} times as long. A round of FedSTaS computed in the authors' way takes
{ratio("restratify", "authors"):.0f} times as long as ours. Before we timed the ways of the table, we checked that they computed the same. For the authors' way we checked the gradient of one client only: its round draws other clients and other batches than ours, so that the two models cannot be compared.

Compiling helps little. On one core, a round of the perceptron takes {ratio("round-mnist", "compile"):.2f} times as long as ours if torch compiles it, and
{ratio("round-mnist", "jax"):.2f} times if JAX does. For the CNN the factors are {ratio("round-cifar", "compile"):.1f} and {ratio("round-cifar", "jax"):.1f}. We compile nothing, because that would change the bits of recorded runs.

All times on this page are of CPUs. Some recorded runs of {{doc}}`chapters/10_which_design` were made on a GPU, an NVIDIA H100, but no CPU took turns with it, so we cannot say how much faster it is.

The tables for two machines, and what they leave open, are in the repository, in `benchmarks/README.md`.
"""


if __name__ == "__main__":
    (HERE / "README.md").write_text(text(HERE / "results"), encoding="utf-8")
    PARAGRAPH.write_text(paragraph(HERE / "results"), encoding="utf-8")
