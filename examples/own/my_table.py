"""Data of one's own from a table: a CSV with a header, a row an example.

The column `diagnosis` has the label to predict, and `clinic` names the client that holds the row (for `--partition
natural`); all other columns are numbers, which are scaled.
"""

from pathlib import Path

from fedstas import user_data


def task():
    """The table beside this file."""
    table = Path(__file__).with_name("patients.csv")
    return user_data.from_csv(table, label="diagnosis", client="clinic")
