"""Tasks from data of the user's: from arrays, a table, or a folder of images.

Data that do not fit are refused before training; the message names the place to correct.
"""

from fedstas.sim.user_arrays import from_arrays
from fedstas.sim.user_images import from_folder
from fedstas.sim.user_tables import from_csv

__all__ = ["from_arrays", "from_csv", "from_folder"]
