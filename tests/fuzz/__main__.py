"""``python -m tests.fuzz``: run all targets at full size, or those named, and print a table."""

from __future__ import annotations

import argparse
import faulthandler
import sys

from tests.fuzz.harness import fuzz, table
from tests.fuzz.targets import TARGETS

SHOWN = 300
"""Maximum number of characters of a case that fails."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="the start of the names of targets; default: all")
    parser.add_argument("--share", type=float, default=1.0, help="share of the cases to run")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    faulthandler.enable()
    chosen = [t for t in TARGETS if not given.names or t.name.startswith(tuple(given.names))]
    tallies = []
    for target in chosen:
        tally = fuzz(target, max(int(given.share * target.cases), 1), given.seed * 1000)
        tallies.append(tally)
        print(f"{tally.name}: {tally.cases} cases, {tally.failed} failures", file=sys.stderr)
        for kind, (count, case, details) in tally.failures.items():
            print(f"  {count} × {kind}: {repr(case)[:SHOWN]}\n{details}", file=sys.stderr)
    print(table(tallies))
    return int(any(tally.failed for tally in tallies))


if __name__ == "__main__":
    sys.exit(main())
