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
# # Aggregation: what are we estimating?
#
# ```{at-a-glance}
# :needs: averages and expectations
# ```
#
# A first, thin version of this chapter: the target, one estimator, one picture.

# %% tags=["parameters"]
profile: str = "quick"  # quick, laptop or paper
seed: int = 0  # of every random draw
device: str = "auto"  # auto, cpu or cuda
clients: int = None  # number of clients
clients_per_round: int = None  # participants of a round

# %% tags=["hide-input"]
import matplotlib.pyplot as plt
import numpy as np
from myst_nb import glue

from fedstas.study import chapters

s = chapters.settings("01_aggregation", globals())

# %% [markdown]
# Full participation gives the target
#
# ```{math}
# :label: eq-target
# \boldsymbol{w}_{t+1} = \sum_{k=1}^{N} \omega_k \boldsymbol{w}_{t+1}^{k}.
# ```
#
# ```{admonition} As written: journal, eq. 2.3
# :class: as-written
# The cohort's models are added with the weights $N/m\,\omega_k$.
# ```
#
# ```{admonition} As coded
# :class: as-coded
# They are averaged with the weights $1/m$.
# ```
#
# ```{admonition} As it should be
# :class: as-it-should-be
# The weights $N/m\,\omega_k$ belong on the updates $\boldsymbol{w}_k - \boldsymbol{w}_t$.
# ```

# %%
rng = np.random.default_rng(s.seed)
values = rng.normal(size=s.clients)
draws = np.array(
    [values[rng.choice(s.clients, s.clients_per_round, replace=False)].mean() for _ in range(2000)]
)
glue("error", float(abs(draws.mean() - values.mean())), display=False)

# %% tags=["hide-input"]
fig, ax = plt.subplots(figsize=(7, 3.2))
ax.hist(draws, bins=40, color="#0072B2")
ax.axvline(values.mean(), color="black")
ax.set(xlabel="aggregate", ylabel="draws")
glue("figure_estimate", fig, display=False)
plt.close(fig)

# %% [markdown]
# ```{glue:figure} figure_estimate
# :name: fig-estimate
# :alt: A bell-shaped histogram of the aggregate of a random cohort, centred on the black line of full participation.
#
# The aggregate of a uniform cohort scatters around the target (black line).
# ```
#
# ```{provenance}
# ```
#
# {numref}`fig-estimate` shows equation {eq}`eq-target`: the mean misses the target by
# {glue:text}`error:.3f`.
#
# ## Exercises
#
# ```{exercise-start} Unbiased or not
# :label: ex-unbiased
# ```
# Is the mean of the first $m$ clients unbiased? Try it.
# ```{exercise-end}
# ```

# %% [markdown]
# ````{solution-start} ex-unbiased
# :label: sol-unbiased
# :class: dropdown
# ````
# No: it is the same number in every round.

# %%
print(values[: s.clients_per_round].mean() - values.mean())

# %% [markdown]
# ````{solution-end}
# ````
