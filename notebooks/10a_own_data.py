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
# :needs: a clone of the repository, installed by make or by pip install -e .
# ```
#
# You have data, a network, or an idea of whom to ask. Each of them is one short file, and an option of the command names the file. Copy four
# files from `examples/own` into a folder of yours, change what is yours, and train:
#
# ```bash
# fedstas run --task my_data.py --network my_network.py --partition my_clients.npy --method my_design.py \
#     --clients-per-round 5 --rounds 30 --lr 0.1 --out mine.parquet
# ```
#
# If the run is killed, give the same command again, and the run goes on where it was.
#
# The first half of this page is a collection of recipes: one for each form of data, then one each for clients, a network and a design. The second half
# records runs with these files, compares the designs and draws the curves. Name your own files, and you get the same page about yours:
#
# ```bash
# fedstas chapter own_data -p task my_data.py -p network my_network.py \
#     -p partition my_clients.npy -p method my_design.py --open
# ```
#
# If you would rather keep your own training loop, {doc}`10b_own_loop` is the page for you. The simulator trains classifiers by cross-entropy, so
# regression and losses of your own belong there, too.

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

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer
from torch.utils.data import TensorDataset

from companion import ch10a, chapters, plots, records, sweeps
from companion.pages.prose import expect, glue_figure, glue_values
from fedstas import methods, partition as partitions, simulation, tasks, user_data
from fedstas.errors import InputError

s = chapters.settings("10a_own_data", globals())
plots.set_page_style()

# %% [markdown]
# ## How do you bring your data?
#
# You write a function without arguments that returns a `Task`, and a reader of the module `user_data` makes the task in one line. Readers
# check the data before anything trains, and refuse in one sentence what they would misread.
#
# | Your data | Reader | Whose an example is |
# | --- | --- | --- |
# | arrays, tensors, lists, columns of pandas | `from_arrays` | `users=`, one for each example |
# | texts | `from_texts` | `users=`, one for each example |
# | a table | `from_csv` | `client=`, the name of a column |
# | a folder of images | `from_folder` | `client="folder"`, or a pattern in the file's name |
# | a `Dataset` of torch or torchvision | `from_dataset` | `users=`, one for each example |
# | a `Dataset` of Hugging Face | `from_hugging_face` | `client=`, the name of a column |
# | LEAF's JSON | `from_leaf` | its users |
# | PFLlib's files | `from_pfllib` | a file for each client |
#
# Without a test set, every fifth example of each class is held back, about a fifth of each user's where users are known. This page's own task is made of arrays. The examples come first, in whatever
# shape your network takes, and then their labels, counted from 0:

# %% tags=["remove-input"]
ch10a.show_file(s.task)

# %%
data = tasks.load(s.task, network=s.network)
shape = tuple(data.train_x.shape[1:])
print(f"{data.name}: {data.classes} classes, examples of shape {shape}")
print(f"{len(data.train_y)} examples to train on, {len(data.test_y)} to test")

# %% [markdown]
# For the other readers we wrote the same tumours into a folder in each form, with twenty clinics as clients and with test examples of each clinic.
#
# **A table** needs the name of the column that is to be predicted. Columns of words are named in `words=`, and become columns of 0 and 1. Empty cells are
# refused, or marked with `missing="indicate"`. `sep=";"`, `decimal=","` and `encoding="latin-1"` read what spreadsheets write.

# %% tags=["remove-cell"]
ch10a.write_forms("runs/mine")


# %%
def describe(task):
    users = 0 if task.users is None else len(set(task.users))
    shape = tuple(task.train_x.shape[1:])
    print(f"{len(task.train_y)} + {len(task.test_y)} examples of shape {shape}, {users} users")


files = {"path": "runs/mine/patients.csv", "test": "runs/mine/later.csv"}
table = user_data.from_csv(label="diagnosis", client="clinic", **files)
describe(table)

# %% [markdown]
# **Images** lie in folders, `FOLDER/CLASS/IMAGE`, with or without folders `train` and `test` above them. Here folders of clients are above the classes. A pattern
# such as `client="patient([0-9]+)"` finds the client in a path instead.

# %%
describe(user_data.from_folder("runs/mine/pictures", size=8, client="folder"))

# %% [markdown]
# **A `Dataset` of torch or torchvision** is read once, item by item, so leave out random augmentation.

# %%
x, y = load_breast_cancer(return_X_y=True)
mine = TensorDataset(torch.tensor(x / x.max(0)), torch.tensor(y))
describe(user_data.from_dataset(mine, users=np.arange(len(y)) % 20))

# %% [markdown]
# **A `Dataset` of Hugging Face** may have splits; `test`, or else `validation`, is the test set. The reader needs the library, `pip install -e ".[datasets]"` in the clone,
# which the environment of this book lacks. So this is the only Python of the page that is not executed here. Tests
# execute the reader, with the library where it is installed and else with an object of its interface.
#
# ```python
# from datasets import load_dataset
#
# files = {"train": "patients.csv", "test": "later.csv"}
# columns = ["mean radius", "mean texture"]
# data = load_dataset("csv", data_files=files)
# task = user_data.from_hugging_face(data, "diagnosis", columns, client="clinic")
# ```
#
# **LEAF and PFLlib** write files of their own. Their clients come with the data. PFLlib's files are pickles, of which only arrays are read, so a file from
# somebody else runs no code.

# %%
leaf = user_data.from_leaf("runs/mine/leaf/train.json", "runs/mine/leaf/test.json")
pfllib = user_data.from_pfllib("runs/mine/pfllib")
describe(leaf)
describe(pfllib)

# %% tags=["remove-cell"]
same = [
    torch.bincount(task.train_y[task.users == 7]).sum().item() for task in (table, leaf, pfllib)
]
expect("the same tumours into a folder in each form", len(set(same)) == 1, clinic_7=same)

# %% [markdown]
# ## Whose is which example?
#
# An array in a file says whose each training example is, in their order. There are four other ways:
#
# - `clients.csv:clinic` reads a column of a table.
# - `clients.json` holds the indices of each client's training examples, as `{"ana": [0, 4], "ben": [1, 2, 3]}`.
# - `natural` uses what the task knows already, if it was made with `client=` or `users=`, or read from LEAF or PFLlib.
# - `iid`, `dirichlet`, `shards`, `k_classes` and the other partitions deal your data out for you.
#
# The array, the column and the indices are of the training examples alone. If you give no test set, every fifth example of each class is taken out first, so
# positions in your file are not positions among the training examples. Then it is safer to give a test set, or to tell the reader whose each example is.

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
# ## How does each client fare?
#
# Where clients have test examples of their own, a run reports how accurate the model is for each of them. The readers of files with a test set know whose
# its examples are; to `from_arrays` you tell it with `test_users=`. The columns `own_test_accuracy` and `own_test_worst_decile` are the mean over clients and the mean over
# the tenth of them that the model serves worst. `fedstas run` prints both.

# %%
clinics = partitions.make(
    "natural", pfllib.train_y, users=pfllib.users, test_users=pfllib.test_users
)
fair = methods.get("fedstas-least-variance", lr=0.1)
history = simulation.run(pfllib, clinics, fair, rounds=s.rounds, clients_per_round=5, seed=s.seed)
print(
    history.frame[["round", "test_accuracy", "own_test_accuracy", "own_test_worst_decile"]].iloc[
        -1:
    ]
)
print("the five clinics served worst:", np.sort(history.client_accuracies)[:5].round(2))

# %% tags=["remove-cell"]
accuracies = history.client_accuracies
expect(
    "the mean over clients and the mean over the tenth of them that the model serves worst",
    bool(np.isclose(history.frame["own_test_accuracy"].iloc[-1], accuracies.mean()))
    and bool(
        np.isclose(history.frame["own_test_worst_decile"].iloc[-1], np.sort(accuracies)[:2].mean())
    ),
    accuracies=accuracies.tolist(),
)

# %% [markdown]
# ## How do you bring your network?
#
# You write a function of the task that returns a torch module. The module is tried before it trains: it must give one number for each class, and the
# same numbers each time, so dropout and batch normalisation are refused. A network with either belongs in {doc}`your own loop <10b_own_loop>`. Without the option you get a
# perceptron, a small convolutional network where the images are 3 x 32 x 32, or a Text-CNN where the examples are texts
# (`--network transformer` is the other one for texts).

# %% tags=["remove-input"]
ch10a.show_file(s.network)

# %% [markdown]
# ## How do you bring your design?
#
# A design is a frozen dataclass with a method `draw`. The method is handed a `view`, which is what the server may ask: `view.sizes`, `view.gradients(9)`,
# `view.last_updates()`. A run is charged for what its design asks. `fedstas audit my_design.py` says in a minute whether the design is unbiased,
# and where it breaks.

# %% tags=["remove-input"]
ch10a.show_file(s.method)

# %% [markdown]
# ## How do you record runs?
#
# A `Run` names the files as the command does. `sweeps.make` takes a list of runs and records those that the folder `runs` does not
# have yet, so you may stop it and start it again. With `jobs=2` two runs are made at a time.

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
# Read the column *against md*. Its differences are taken seed by seed, so a lucky deal of the data helps no design. An interval that contains 0
# decides nothing yet: record more seeds. Only runs of one task, one network and one partition stand in one table. Here all designs ran at one rate, 0.1, and their last models are compared, so the table shows how
# to read a comparison and does not decide one. `fedstas run --average 0.9` also measures the average of the server's models, which {doc}`10_which_design` advises you to deploy;
# its summary line then gives the accuracy of the averaged model first and that of the last model second.

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
# On the command line, `fedstas leaderboard runs` prints the table, and `fedstas compare runs theirs` compares your runs with somebody else's.
#
# ## Can you make a run again?
#
# You can make a run again while your files are where they were. A record holds the SHA-256 of each file, and from the record the run is made again, bit for bit. A changed
# file makes another run.

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
# You are told before anything trains, in one sentence, which names the line of your file where there is one.

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
# Tune every design, and compare all of them at equal cost. `fedstas arena --edition 2` does so for your own files by the protocol of the book's second comparison ({doc}`/comparison`): it chooses each design's learning rate and schedule
# by the accuracy on a tenth of your training examples, on which those runs do not train, judges averages of the server's models, and says what share of MD sampling's megabytes a design needs to reach the same accuracy. Start from `examples/own/my_comparison.yml`. In a setting name your `task`,
# `partition` and `network`, and say how many `clients` there are; `rounds` and the seeds stand at the head of the file. Its three seeds are for trying: for a decision take ten. The dry run says how many runs the first grid takes; a best rate at its end adds more:
#
# ```bash
# fedstas arena my_design.py --edition 2 --file my_comparison.yml --setting mine --dry-run
# fedstas arena my_design.py --edition 2 --file my_comparison.yml --setting mine
# ```
#
# With your design in the command, it is compared with MD sampling alone; without it, all designs of the file are compared. If you deploy last models, use
# `examples/own/my_protocol.yml` and leave out `--edition 2`: that is the protocol of the first comparison ({doc}`/protocol`).
#
# ## What are the limits?
#
# The simulator trains classifiers by cross-entropy. Regression and losses of your own do not fit into it without a second copy of its parts: the derivatives of its
# default network are written by hand for cross-entropy, accuracy and F1 are what it measures, and both its partitions and the designs that ask for label
# counts need classes. `fedstas.Cohorts` knows no loss at all, so {doc}`your own loop <10b_own_loop>` has no such limit.
