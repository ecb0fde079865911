"""Make this world with the code of `fashion`: run `python -m worlds.breeds.make` in the repository root.

The options are those of worlds/fashion/make.py. The generators are the same, so the images made for
`fashion` can be reused: `python -m worlds.breeds.make embed`.
"""

import sys

from worlds.fashion.make import main

if __name__ == "__main__":
    main([*sys.argv[1:], "--only", "breeds"])
