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
# You have data, a network, or an idea of whom to ask. Each is one short file, and an option names it. Copy four files from
# `examples/own` into a folder of yours, change what is yours, and train:
#
# ```bash
# fedstas run --task my_data.py --network my_network.py --partition my_clients.npy --method my_design.py \
#     --clients-per-round 5 --rounds 30 --lr 0.1 --out mine.parquet
# ```
#
# If the run is killed, give the same command again: it goes on where it was.
#
# This page shows the files. Then it records, compares and draws runs with them. Name your own files, and you get the same page
# about yours:
#
# ```bash
# fedstas chapter own_data -p task my_data.py -p network my_network.py \
#     -p partition my_clients.npy -p method my_design.py --open
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
import sys
from pathlib import Path
from textwrap import fill

from companion import ch10a, chapters, plots, records, sweeps
from companion.pages.prose import expect, glue_figure, glue_values
from fedstas import methods, partition as partitions, tasks
from fedstas.errors import InputError

s = chapters.settings("10a_own_data", globals())
plots.set_page_style()

# %% [markdown]
# ## How do you bring your data?
#
# With a function that returns a `Task`. From arrays it is one line. The examples come first, in whatever shape your network takes. Then come
# their labels, counted from 0. Give a test set too, or every fifth example of each class is held back.

# %% tags=["remove-input"]
ch10a.show_file(s.task)

# %%
data = tasks.load(s.task, network=s.network)
shape = tuple(data.train_x.shape[1:])
print(f"{data.name}: {data.classes} classes, examples of shape {shape}")
print(f"{len(data.train_y)} examples to train on, {len(data.test_y)} to test")

# %% [markdown]
# A table needs only the name of the column that is to be predicted. Images need only their folder, `FOLDER/CLASS/IMAGE`:

# %% tags=["remove-input"]
ch10a.show_file("examples/own/my_table.py")

# %% tags=["remove-input"]
ch10a.show_file("examples/own/my_images.py")

# %% [markdown]
# ## Whose is which example?
#
# An array in a file says it, one client for each training example. There are three other ways:
#
# - `clients.csv:clinic` reads a column of a table.
# - `natural` uses what the task knows already, if it was made with `client=` or `users=`.
# - `iid`, `dirichlet` and the other partitions deal your data out for you.

# %% tags=["remove-input"]
ch10a.show_file(s.partition)

# %%
labels, users = data.train_y, data.users
federation = partitions.make(s.partition, labels, users=users, seed=s.seed)
sizes = federation.sizes
print(f"{len(sizes)} clients with {sizes.min()} to {sizes.max()} examples")

# %% tags=["remove-cell"]
glue_values(
    "ch10a", clients=len(sizes), least=int(sizes.min()), most=int(sizes.max()), rounds=s.rounds
)
glue_figure("ch10a_who", ch10a.draw_class_counts(federation.label_counts))

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
# ## How do you bring your network?
#
# With a function of the task that returns a torch module. It is tried before it trains. It must give one number for each class, and the
# same numbers each time: so no dropout and no batch normalisation. Without the option you get a perceptron, or a small convolutional
# network where the images are 3 x 32 x 32.

# %% tags=["remove-input"]
ch10a.show_file(s.network)

# %% [markdown]
# ## How do you bring your design?
#
# As a frozen dataclass with a method `draw`. It is handed a `view`, which is what the server may ask: `view.sizes`, `view.gradients(9)`,
# `view.last_updates()`. You pay for what you ask. `fedstas audit my_design.py` says in a minute whether the design is unbiased,
# and where it breaks.

# %% tags=["remove-input"]
ch10a.show_file(s.method)

# %% [markdown]
# ## How do you record runs?
#
# A `Run` names the files as the command does. `sweeps.make` takes a list of runs and records those that the folder `runs` does not
# have yet. You may stop it and start it again; `jobs=2` makes two runs at a time.

# %%
names = list(dict.fromkeys(["md", "fedstas-least-variance", s.method]))
todo = [
    sweeps.Run(
        task=s.task,
        partition=s.partition,
        concentration=0.01,  # of a Dirichlet partition; others ignore it
        method=name,
        seed=each,
        overrides={"lr": 0.1},
        network=s.network,
        clients=len(federation.shards),
        clients_per_round=s.clients_per_round,
        rounds=s.rounds,
    )
    for name in names
    for each in range(s.seed, s.seed + s.seeds)
]
options = {"folder": "runs", "device": s.device, "progress": False}
failures = sweeps.make(todo, "own-data", **options)
assert not failures, failures

# %% [markdown]
# ## Which design was better?
#
# Read the column *against md*. It is taken seed by seed, so that a lucky deal of the data helps nobody. An interval that holds 0
# decides nothing yet: record more seeds. Only runs of one task, one network and one partition stand in one table.

# %%
frame, identities = ch10a.load_runs(todo, "runs/own-data")
ch10a.show_leaderboard(identities, "runs/own-data")

# %% tags=["remove-cell"]
glue_figure("ch10a_curves", ch10a.draw_curves(frame))

# %% [markdown]
# ```{glue:figure} ch10a_curves
# :name: fig-ch10a-curves
# :alt: Accuracy on the test set over {glue:text}`ch10a_rounds` rounds, a curve for each design, thin lines for its seeds.
# The recorded runs: thick lines are means, thin lines are single seeds.
# ```
#
# ```{provenance} How this figure was made
# ```
#
# On the command line, `fedstas leaderboard runs` prints the table. `fedstas compare runs theirs` holds your runs against somebody else's.
#
# ## Can you make a run again?
#
# Yes, while your files are where they were. A record knows the SHA-256 of each, and from it the run is made again, bit for bit. Change a
# file, and it is another run.

# %%
specs = (s.task, s.network, s.partition, s.method)
sys.path += [str(Path(spec).parent) for spec in specs]  # where the files are
first = next(iter(identities))
again = records.rerun(first, "runs/own-data", device=s.device)
again = again.frame["test_accuracy"]
print({k: v[:8] for k, v in identities[first].get("files", {}).items()})

# %% tags=["remove-cell"]
before = frame[frame["run"] == first]["test_accuracy"]
expect("the run is made again, bit for bit", again.tolist() == before.tolist())

# %% [markdown]
# ## What if something does not fit?
#
# You are told before anything trains: in one sentence, and with the line where there is one.

# %%
Path("runs/their_network.py").write_text(
    "from torch import nn\n\ndef network(task):\n    return nn.Linear(5, 2)\n", encoding="utf-8"
)
for attempt in (
    lambda: tasks.load(s.task, network="runs/their_network.py"),
    lambda: partitions.make(s.partition, data.train_y[:100], users=data.users),
    lambda: methods.get(s.method, powr=2),
):
    try:
        attempt()
    except InputError as error:
        print(fill(f"- {error}", 79, subsequent_indent="  "))

# %% [markdown]
# ## How do you compare designs fairly?
#
# By the protocol: every design is tuned, and compared at equal cost ({doc}`/protocol`). It takes your files too. Copy `book/protocol.yml`. In a
# setting name your `task`, `partition` and `network`, and say how many `clients` there are. Set `rounds`, and `megabytes` to what so many
# rounds send; leave out `longer`. The dry run says how many runs it takes:
#
# ```bash
# fedstas arena my_design.py --file my_protocol.yml --setting mine --dry-run
# fedstas arena my_design.py --file my_protocol.yml --setting mine
# ```
