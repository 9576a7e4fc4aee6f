"""The functions that decide the claims: one below each `@claim(...)`, a module per part of a paper.

FedSTaS, theory: `unbiasedness`, `variance`, `allocations`, `sizes`, `privacy`, `covariances`, `pooling`, `convergence`.
Clustered sampling, theory: `clusters` and `clusters_*`. FedSampling: `slides_sampling`. Claims on experiments, which
read recorded runs: `experiments` (how a printed number is compared) and `experiments_*`.

A function takes the `Claim` and returns `Evidence`: a verdict, our value, an interval, a note. It may import
`fedstas.theory` and `companion.runs`. A theorem is decided exactly, in rationals; an experiment by intervals over seeds.

To add one, see CONTRIBUTING.md; claims that share a fact share a function, by several decorators.
"""
