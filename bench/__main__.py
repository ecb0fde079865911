"""``python -m bench`` lists the benchmarks; ``python -m bench NAME… [--quick] [--out DIR]`` runs them."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from time import perf_counter

from bench.registry import BENCHMARKS, benchmark


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Benchmarks of genmix.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="benchmarks to run, or all")
    parser.add_argument("--quick", action="store_true", help="run small versions")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for the figures as JSON")
    chosen = parser.parse_args(arguments)
    if not chosen.names:
        print(listing())
        return 0
    out = chosen.out or Path("build/bench-quick" if chosen.quick else "build/bench")
    names = list(BENCHMARKS) if "all" in chosen.names else chosen.names
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}; pass one of {', '.join(BENCHMARKS)}.")
    if len(names) == 1:
        run(names[0], chosen.quick, out)
        return 0
    # Each runs in its own process, so that threads and memory of one do not affect the next.
    options = ["--quick"] * chosen.quick + ["--out", str(out)]
    failed = []
    for name in names:
        command = [sys.executable, "-m", "bench", name, *options]
        if subprocess.run(command, check=False).returncode:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def listing() -> str:
    lines = [f"  {name:12} {line}" for name, (_, line) in BENCHMARKS.items()]
    end = "\n`python -m bench.draw` compares the two ways of drawing arms, to choose the default."
    return "\n".join(["python -m bench NAME… | all [--quick] [--out DIR]", "", *lines, end])


def run(name: str, quick: bool, out: Path) -> None:
    begin = perf_counter()
    report = benchmark(name)("quick" if quick else "full")
    path = out / f"{name}.json"
    report.write(path)
    print(f"{report}\n\n{path}, {perf_counter() - begin:.0f} s\n", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
