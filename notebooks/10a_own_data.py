# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Use it on your own data
#
# ```{at-a-glance}
# :needs: the package, installed from a clone
# ```
#
# Data, network, design: each is one short file, and an option names it. Copy the four files below into a folder of yours, change what
# is yours, and train:
#
# ```bash
# fedstas run --task my_data.py --network my_network.py --partition my_clients.npy --method my_design.py \
#     --clients-per-round 5 --rounds 30 --lr 0.1 --out mine.parquet
# ```
#
# Killed, the same call goes on. What follows shows the files, and then records, compares and draws the runs. With your files it is
# the same page:
#
# ```bash
# fedstas chapter own_data -p task my_data.py -p network my_network.py -p partition my_clients.npy -p method my_design.py --open
# ```

# %% tags=["parameters", "hide-input"]
profile: str = "quick"  # quick, laptop or paper
seed: int = 0  # the first of the runs' seeds
device: str = "auto"  # auto, cpu or cuda
task: str = "examples/own/my_data.py"  # a data set's name, or FILE.py:FUNCTION
network: str = "examples/own/my_network.py"  # a network's name, or FILE.py:FUNCTION
partition: str = "examples/own/my_clients.npy"  # FILE.npy, FILE.csv:COLUMN, or a partition's name
method: str = "examples/own/my_design.py"  # a method's name, or FILE.py:CLASS
clients_per_round: int = 5  # participants of a round
rounds: int = 30  # rounds of a run
seeds: int = 3  # runs of each design

# %% tags=["hide-input"]
import re
import sys
from pathlib import Path

import matplotlib.pyplot as plt
from IPython.display import Markdown
from myst_nb import glue

from fedstas import methods, partition as partitions, tasks
from fedstas.errors import InputError
from companion import chapters, leaderboard, plots, records, sweeps, tables

s = chapters.settings("10a_own_data", globals())
plots.style()


def show(spec: str) -> Markdown:
    """The text of the file that a parameter names."""
    file = Path(re.sub(r"\.npy$", ".py", re.sub(r":\w+$", "", spec)))  # what wrote the array
    lines = file.read_text().strip().split("\n") if file.is_file() else [f"# {spec}"]
    text = "\n".join([*lines[:40], "..."] if len(lines) > 40 else lines)
    return Markdown(f"```python\n{text}\n```")


# %% [markdown]
# ## Your data
#
# A function that returns a `Task`. From arrays it is one line: examples first, in whatever shape your network takes, then labels from 0
# on. Give a test set too, or every fifth example of each class is held back.

# %% tags=["hide-input"]
show(s.task)

# %%
data = tasks.load(s.task, network=s.network)
print(
    f"{data.name}: {len(data.train_y)} examples of shape {tuple(data.train_x.shape[1:])} to train on, "
    f"{len(data.test_y)} to test, {data.classes} classes"
)

# %% [markdown]
# A table needs only the name of the column that is to be told, and images only their folder, `FOLDER/CLASS/IMAGE`:

# %% tags=["hide-input"]
show("examples/own/my_table.py")

# %% tags=["hide-input"]
show("examples/own/my_images.py")

# %% [markdown]
# ## Your clients
#
# An array in a file says whose each training example is. `clients.csv:clinic` reads a column of a table instead; a task that was made with
# `client=` or `users=` knows it already, and `--partition natural` uses that. Without any of these, deal your data by `iid`,
# `dirichlet` or another partition.

# %% tags=["hide-input"]
show(s.partition)

# %%
federation = partitions.make(s.partition, data.train_y, users=data.users, seed=s.seed)
figure = plots.partitions({f"{len(federation.shards)} clients": federation.label_counts})
glue("ch10a_clients", len(federation.shards), display=False)
glue("ch10a_least", int(federation.sizes.min()), display=False)
glue("ch10a_most", int(federation.sizes.max()), display=False)
glue("ch10a_who", figure, display=False)
plt.close(figure)

# %% [markdown]
# ```{glue:figure} ch10a_who
# :name: fig-ch10a-who
# :alt: Stacked bars, one for each of {glue:text}`ch10a_clients` clients: how many examples of each class it holds, from {glue:text}`ch10a_least` to {glue:text}`ch10a_most` in all.
# The {glue:text}`ch10a_clients` clients hold {glue:text}`ch10a_least` to {glue:text}`ch10a_most` examples.
# ```
#
# ```{provenance} How this figure was made
# ```
#
# ## Your network
#
# A function of the task that returns a torch module. It is tried before it trains: a number for each class, the same each time, no
# dropout, no batch normalisation. Without the option it is a perceptron, or a small convolutional network where images are 3 x 32 x 32.

# %% tags=["hide-input"]
show(s.network)

# %% [markdown]
# ## Your design
#
# A frozen dataclass with `draw`. `view` is what the server may ask: `view.sizes`, `view.gradients(9)`, `view.last_updates()`; what you ask
# for is what you pay. `fedstas audit my_design.py` says in a minute whether the design is unbiased, and where it breaks.

# %% tags=["hide-input"]
show(s.method)

# %% [markdown]
# ## Train and record
#
# A `Run` names the files as the command does. `sweeps.make` records what is missing of a list of them in the folder `runs`; it may be
# killed, and `jobs=2` makes two at a time.

# %%
names = list(dict.fromkeys(["md", "fedstas-least-variance", s.method]))
shape = {
    "clients": len(federation.shards),
    "clients_per_round": s.clients_per_round,
    "rounds": s.rounds,
}
todo = [
    sweeps.Run(s.task, s.partition, 0.01, name, each, {"lr": 0.1}, network=s.network, **shape)
    for name in names
    for each in range(s.seed, s.seed + s.seeds)
]
failed = sweeps.make(todo, "own-data", folder="runs", device=s.device, progress=False)
assert not failed, failed

# %% [markdown]
# ## Compare
#
# Only runs of one task, one network and one partition stand in one table. The difference to `md` is taken seed by seed.

# %% tags=["hide-input"]
frame = records.load("runs/own-data")
known = records.identities("runs/own-data")
asked = {tables.key_of_run(run) for run in todo}  # the folder may hold runs of other files, too
here = [run for run, who in known.items() if tables.key_of_record(who) in asked]
mine = frame[frame["run"].isin(here)]
board = leaderboard.table(["runs/own-data"])
Markdown(
    leaderboard.markdown(
        board[board["federation"].str.startswith(leaderboard.title(known[here[0]]))]
    )
)

# %%
figure, ax = plt.subplots(figsize=(7, 3.6))
plots.curves(mine, "test_accuracy", ax=ax, seeds=True)
glue("ch10a_curves", figure, display=False)
glue("ch10a_rounds", s.rounds, display=False)
plt.close(figure)

# %% [markdown]
# ```{glue:figure} ch10a_curves
# :name: fig-ch10a-curves
# :alt: Accuracy on the test set over {glue:text}`ch10a_rounds` rounds, a curve for each design, thin lines for its seeds.
# The recorded runs: means, and thin lines for single seeds.
# ```
#
# ```{provenance} How this figure was made
# ```
#
# `fedstas leaderboard runs` prints the table, `fedstas compare runs theirs` holds your runs against somebody else's.
#
# ## Make one again
#
# A record knows the SHA-256 of your files. While they are where you stand, the run is made again from its record, bit for bit; once one of them
# changed, it is another run.

# %%
sys.path += [
    str(Path(spec).parent) for spec in (s.task, s.network, s.partition, s.method)
]  # where the files are
again = records.rerun(here[0], "runs/own-data", device=s.device).frame
assert again["test_accuracy"].tolist() == frame[frame["run"] == here[0]]["test_accuracy"].tolist()
print({k: v[:8] for k, v in known[here[0]].get("files", {}).items()})

# %% [markdown]
# ## When something does not fit
#
# You are told before anything trains, in one sentence, with the line where there is one:

# %%
Path("runs/their_network.py").write_text(
    "from torch import nn\n\ndef network(task):\n    return nn.Linear(5, 2)\n"
)
for attempt in (
    lambda: tasks.load(s.task, network="runs/their_network.py"),
    lambda: partitions.make(s.partition, data.train_y[:100], users=data.users),
    lambda: methods.get(s.method, powr=2),
):
    try:
        attempt()
    except InputError as error:
        print(f"- {error}")

# %% [markdown]
# Designs are tuned and compared at equal cost by the protocol ({doc}`/protocol`). In a copy of `book/protocol.yml`, `task`, `partition` and
# `network` of a setting may name your files, and `fedstas arena my_design.py --file my_protocol.yml --setting mine` carries it out.
