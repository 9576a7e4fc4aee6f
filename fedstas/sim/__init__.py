"""The simulator of federations, on torch.

Data: `tasks` (data sets and their networks), `text`, `coarse`, `frozen_features`, `user_data`, `csv_files`; `partition` deals the examples
to clients. Arithmetic: `models`, `engine` (local SGD, gradients, evaluation), `autograd` and `perceptron` (its two
backends). Rounds: `server` (what a design may ask for, and the cost of it), `simulation` (the round loop, Algorithm 3),
`initial_model` (w_0 and its price), `run_file` (continuing a run), `rng` (the random streams). Instruments: `one_round`
(the error of one round), `audit`.

May import `fedstas`, not `fedstas.theory` or `fedstas.flower`. Start from `simulation.run`.

To add a data set, write its loader in `tasks`; a partition, its function and entry in `partition`; a network, its class
in `models` (`autograd` runs any network).
"""
