"""Make this world with the code of `fashion`: `python -m worlds.boots.make`, from the repository's root.

The options are those of worlds/fashion/make.py; the generators are the same, so that a folder of
images that `fashion` left is enough: `python -m worlds.boots.make embed`.
"""

import sys

from worlds.fashion.make import main

if __name__ == "__main__":
    main([*sys.argv[1:], "--only", "boots"])
