"""The names of the interactive demos, in the order in which the page of all demos has them.

Each is a script `book/_ext/instruments/NAME.js`, whose data and still picture `explorer` computes, or of recorded runs
`landing_page`; the build and the directive `{explorer} NAME` read the names here.
"""

MOVING_PICTURES = ("train", "drag", "draws")  # those of `moving_pictures`
COMPUTED = (  # their data are in `explorer.json`
    *MOVING_PICTURES,
    "squeeze",
    "strata",
    "allocation",
    "bias",
    "coin",
    "estimate",
    "privacy",
)
# Those of recorded runs, and the files of their data.
RECORDED = {"tree": "decision-tree.json", "rates": "learning-rates.json"}
NAMES = (*RECORDED, *COMPUTED)
