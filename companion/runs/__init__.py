"""Recorded runs: made in sweeps, stored in `results/`, read as tables.

Making: `experiments` (the sweeps by name), `clustered_grid`, `fedsampling_grid` (two papers' grids), `averaging`, `sweeps` (parallel,
resumable), `protocol` (chapter 10's tuned comparison), `one_rounds`, `feature_errors`, `features`, `local_tests`. Storing: `records` (the
store), `atomic` (files complete or absent, locks), `provenance`. Reading: `tables`, `statistics` (intervals, paired
differences, verdicts), `leaderboard`, `compare`, `grid_results`, `averaging_results` and `least_variance_results` (of some sweeps), `provenance_report`.

May import `fedstas` and `fedstas.sim`. Pages and claims read runs by `tables.recorded` and `records.load`.

To add a sweep, write a function in `experiments` and enter it in `SWEEPS`; a new statistic goes to `statistics`.
"""
