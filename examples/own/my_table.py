"""Data of one's own from a table: a CSV with a header, a row an example.

The column `diagnosis` is what is to be told, `clinic` whose the row is (for `--partition natural`), and all others
are numbers, which are scaled.
"""

from pathlib import Path

from fedstas import user_data


def task():
    """The table beside this file."""
    table = Path(__file__).with_name("patients.csv")
    return user_data.from_csv(table, label="diagnosis", client="clinic")
