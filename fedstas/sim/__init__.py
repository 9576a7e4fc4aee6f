"""The simulator: data, networks, engine, round loop."""
