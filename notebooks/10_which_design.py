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
# # Which design should you use?
#
# ```{at-a-glance}
# :needs: what a design is (chapter 1), and the names of the methods (chapters 2, 6 and 9)
# ```
#
# You have a federation to run. Every method of this book promises a better model for the same effort. Until here they all used the learning rate of the
# preprint, 0.01, at which whoever makes the longest step wins, and they were compared by rounds, which hides what a round sends.
#
# This chapter tunes every method alike and compares them at equal megabytes. At the end you will know
#
# - how many points each design gains on plain MD sampling, and what is left of the gains of chapters 5 and 9;
# - when the choice of clients matters, and when it hardly does;
# - whether the error of one round, which is cheap to measure, tells you beforehand.

# %% tags=["parameters", "hide-input"]
profile: str = "quick"  # quick, laptop or paper
seed: int = 0  # of the design of your own
device: str = "auto"  # auto, cpu or cuda

# %% tags=["hide-input"]
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from IPython.display import Markdown, display
from myst_nb import glue
from scipy import stats

from companion import chapters
from companion.pages import plots, which
from companion.runs import one_rounds, protocol

s = chapters.settings("10_which_design", globals())
plots.style()
known = protocol.read()

# %% [markdown]
# ## What was compared?
#
# Thirteen ways to choose clients, one server that remembers, and all clients at once, in the settings below. All start from the same model on the same
# clients and take the same local steps. Only the learning rate is each method's own. It was chosen on two seeds that serve nothing else; ten other
# seeds decide. Rules and reasons stand in the {doc}`../protocol`, which was committed before the runs.

# %% tags=["hide-input"]
found = {name: protocol.outcomes(known, name) for name in known}
found = {name: rows for name, rows in found.items() if len(rows)}
gained = pd.concat(
    [protocol.gains(rows, "md").assign(setting=name) for name, rows in found.items()],
    ignore_index=True,
)
state = pd.DataFrame(
    {
        "setting": [known[n].says for n in known],
        "methods": [len(known[n].arms) for n in known],
        "seeds": [found[n]["seed"].nunique() if n in found else 0 for n in known],
        "budgets": [" and ".join(f"{b:g}" for b in known[n].megabytes) + " MB" for n in known],
    }
)
display(Markdown(state.to_markdown(index=False)))
