"""The study: recorded runs, sweeps, figures, the pipeline of the book."""
