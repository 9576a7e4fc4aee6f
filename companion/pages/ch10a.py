"""Figures and texts of the page *Use it on your own data*."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from IPython.display import Markdown
from matplotlib.figure import Figure

from companion.pages import plots
from companion.runs import leaderboard, records, tables
from fedstas import user_code

MAX_LINES = 40  # of a file on the page


def show_file(spec: str) -> Markdown:
    """Show the text of the file that a parameter names; for an array, that of the script beside it.

    A name of the package's own has no file: a sentence says so.
    """
    if not user_code.file_of(spec):
        name = f"`{spec}`" if spec else "The usual one of the data"
        return Markdown(f"*{name} comes with the package: there is no file to show.*")
    file = Path(re.sub(r"\.npy$", ".py", re.sub(r":\w+$", "", spec)))
    lines = (
        file.read_text(encoding="utf-8").strip().split("\n") if file.is_file() else [f"# {spec}"]
    )
    text = "\n".join([*lines[:MAX_LINES], "..."] if len(lines) > MAX_LINES else lines)
    return Markdown(f"```python\n{text}\n```")


def write_forms(folder: str | Path) -> None:
    """Write 569 tumours of twenty clinics in the forms that the readers take, and some images of digits.

    Every fifth tumour of a clinic is a test example. The files are `patients.csv` and `later.csv` (the test examples),
    `leaf/train.json` and `leaf/test.json`, `pfllib/train/0.npz` and so on, and `pictures/CLIENT/CLASS/IMAGE`.
    """
    from PIL import Image
    from sklearn.datasets import load_breast_cancer, load_digits

    folder, data = Path(folder), load_breast_cancer()
    x = ((data.data - data.data.min(0)) / np.ptp(data.data, axis=0)).astype(np.float32)
    clinics = np.argsort(np.argsort(x[:, 0], kind="stable")) * 20 // len(x)  # by size of the tumour
    for clinic in range(20):
        rows = np.flatnonzero(clinics == clinic)
        is_test = np.arange(len(rows)) % 5 == 4
        for split, chosen in (("train", rows[~is_test]), ("test", rows[is_test])):
            (folder / "pfllib" / split).mkdir(parents=True, exist_ok=True)
            content = {"x": x[chosen], "y": data.target[chosen]}
            np.savez_compressed(folder / "pfllib" / split / f"{clinic}.npz", data=content)  # type: ignore[arg-type]
    _write_tables(folder, x, data.target, clinics, data.feature_names)
    digits = load_digits()
    for place in range(90):
        digit = digits.target[place]
        file = folder / "pictures" / f"writer{place % 3}" / f"digit{digit}" / f"{place}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((digits.images[place] * 15).astype(np.uint8)).save(file)


def _write_tables(folder: Path, x, y, clinics, names) -> None:
    """Write the table and the JSON of `write_forms`, whose test examples are every fifth of a clinic."""
    (folder / "leaf").mkdir(exist_ok=True)
    rank = np.array([np.count_nonzero(clinics[:i] == clinics[i]) for i in range(len(clinics))])
    for table, split, chosen in (
        ("patients.csv", "train", np.flatnonzero(rank % 5 != 4)),
        ("later.csv", "test", np.flatnonzero(rank % 5 == 4)),
    ):
        with (folder / table).open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow([*names, "diagnosis", "clinic"])
            for row in chosen:
                words = ("malignant", "benign")[y[row]], f"clinic {clinics[row]:02}"
                writer.writerow([*(f"{value:.6g}" for value in x[row]), *words])
        users = [f"clinic {k:02}" for k in range(20)]
        rows = [chosen[clinics[chosen] == k] for k in range(20)]
        user_data = {
            user: {"x": x[of_user].astype(float).tolist(), "y": y[of_user].tolist()}
            for user, of_user in zip(users, rows, strict=True)
        }
        leaf = {"users": users, "num_samples": [len(r) for r in rows], "user_data": user_data}
        (folder / "leaf" / f"{split}.json").write_text(json.dumps(leaf), encoding="utf-8")


def draw_class_counts(counts: np.ndarray) -> Figure:
    """Draw label counts [N, C] as stacked bars, a bar per client, sorted by the largest class."""
    figure, ax = plt.subplots(figsize=(plots.WIDTH, 2.8))
    plots.class_counts(ax, counts[np.lexsort((-counts.max(1), counts.argmax(1)))], "colorblind")
    ax.set(xlabel="client, sorted by its largest class", ylabel="examples")
    columns = 1 + counts.shape[1] // 6
    ax.legend(ax.containers, range(counts.shape[1]), title="class", frameon=False, ncols=columns)
    return figure


def load_runs(runs: list, folder: str) -> tuple[pd.DataFrame, dict]:
    """Load the curves of these runs, and their identities by run.

    Args:
        runs: as `experiments.Run`.
        folder: where they are recorded, possibly with other runs.
    """
    keys = {tables.run_key(run) for run in runs}
    identities = {
        run: identity
        for run, identity in records.identities(folder).items()
        if tables.record_key(identity) in keys
    }
    frame = records.load(folder)
    return frame[frame["run"].isin(identities)], identities


def show_leaderboard(identities: dict, folder: str) -> Markdown:
    """Show the leaderboard of the setting of some runs, and of settings with the same title.

    Args:
        identities: by run, the recorded settings that identify it; those of different runs differ in method and seed alone.
        folder: where the runs are recorded, possibly with runs in other settings.
    """
    ranking = leaderboard.rank_methods([folder])
    title = leaderboard.describe_setting(next(iter(identities.values())))
    # The column `federation` has the setting in words: its title, and a suffix where several settings in the folder have
    # the same title. All of these are shown.
    is_of_setting = ranking["federation"].str.startswith(title)
    return Markdown(leaderboard.format_markdown(ranking[is_of_setting]))


def curve_style(method: str) -> plots.Style:
    """Return the style of a method; a reader's own design is dashed."""
    style = plots.method_style(method)
    return style if method in plots.METHODS else style._replace(dash="--")


def draw_curves(frame: pd.DataFrame) -> Figure:
    """Draw accuracy on the test set over rounds: means, and thin lines for single seeds."""
    figure, ax = plt.subplots(figsize=(plots.WIDTH, 3.2))
    options = {"styles": curve_style, "seeds": True, "names": False}
    plots.learning_curves(ax, frame, "test_accuracy", **options)
    ax.set_ylabel("accuracy on the test set (%)")
    plots.legend(figure, {name: curve_style(name) for name in frame["method"].unique()}, columns=1)
    return figure
