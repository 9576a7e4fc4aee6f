"""Tasks from data of the user's: from arrays, texts, a table, a folder of images, and files of other libraries.

Data that do not fit are refused before training; the message names the place to correct.
"""

from fedstas.sim.user_arrays import from_arrays, from_texts
from fedstas.sim.user_images import from_folder
from fedstas.sim.user_readers import from_dataset, from_hugging_face, from_leaf, from_pfllib
from fedstas.sim.user_tables import from_csv

__all__ = [
    "from_arrays",
    "from_csv",
    "from_dataset",
    "from_folder",
    "from_hugging_face",
    "from_leaf",
    "from_pfllib",
    "from_texts",
]
