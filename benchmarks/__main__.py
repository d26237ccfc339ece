"""Run every benchmark and write benchmarks/RESULTS.md; `--smoke` runs small sizes and checks that they run at all."""

from __future__ import annotations

import argparse
import platform
import sys
from pathlib import Path

from benchmarks import bench_daemon, bench_run, bench_scrape, bench_simulate, bench_store
from benchmarks.figures import Figure

BENCHMARKS = {
    "run": bench_run,
    "scrape": bench_scrape,
    "simulate": bench_simulate,
    "daemon": bench_daemon,
    "store": bench_store,
}
RESULTS = Path(__file__).parent / "RESULTS.md"
HEAD = """\
# Benchmark results

Written by `make bench`. Every figure is a ratio measured in one run on one machine, the median of interleaved pairs; no
absolute time is claimed. One benchmark alone: `python -m benchmarks NAME`.

Machine: {machine}, Python {python}.

| what | against | size | ratio | goal | reached |
|---|---|---|---|---|---|
"""


def main() -> None:
    """Run the benchmarks named on the command line, or all of them."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}")
    parser.add_argument("--smoke", action="store_true", help="small sizes, nothing is written")
    options = parser.parse_args()
    if unknown := set(options.names) - set(BENCHMARKS):
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}")
    names = options.names or list(BENCHMARKS)
    found: list[Figure] = []
    for name in names:
        print(f"{name} ...", file=sys.stderr, flush=True)
        found += BENCHMARKS[name].figures(smoke=options.smoke)
    rows = "\n".join(figure.row() for figure in found)
    text = HEAD.format(machine=platform.machine(), python=platform.python_version()) + rows + "\n"
    print(text)
    if not options.smoke and not options.names:
        RESULTS.write_text(text)


if __name__ == "__main__":
    main()
