"""The names of the interactive demos, in the order in which the page of all demos has them.

Each is a script `book/_ext/instruments/NAME.js`, whose data and still picture `explorer` computes; the build and the
directive `{explorer} NAME` read the names here.
"""

MOVING_PICTURES = ("train", "drag")  # those of `moving_pictures`
NAMES = (
    *MOVING_PICTURES,
    "squeeze",
    "strata",
    "allocation",
    "bias",
    "coin",
    "estimate",
    "privacy",
)
