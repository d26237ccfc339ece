"""What a model made of a panel, from the store: `python -m benchmarks.local_model STORE_URL [--series NAME]`.

Prints one Markdown table for each arm: passed items per family and level, mean score, replies without a readable
answer, and failures by kind. With `--replies N` it prints N replies of the tracked arm, evenly spaced over the items in
the order of their ids, with their grades, to be judged by eye.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import date

from canaryd.generators.family import LEVELS
from canaryd.records import Failure, Grade
from canaryd.store import read, samples
from canaryd.store.engine import open_store
from canaryd.store.rows import Span, StoredSample

Results = Sequence[Grade | Failure]


def table(found: Sequence[StoredSample]) -> str:
    """Return the Markdown table of one arm's samples."""
    by_family: dict[str, dict[str, list[Grade | Failure]]] = defaultdict(lambda: defaultdict(list))
    for sample in found:
        family, level, _ = sample.key.item_id.split("-", 2)
        by_family[family][level].append(sample.result)
    levels = [f"L{level}" for level in range(1, LEVELS + 1)]
    lines = [
        f"| family | {' | '.join(levels)} | mean score | no answer | failures |",
        "|---" * (len(levels) + 4) + "|",
    ]
    for family, results in sorted(by_family.items()):
        passed = [_passed(results[level]) for level in levels]
        lines.append(
            f"| `{family}` | {' | '.join(passed)} | {_rest([one for level in levels for one in results[level]])} |"
        )
    everything = [sample.result for sample in found]
    columns = [[one for results in by_family.values() for one in results[level]] for level in levels]
    lines.append(f"| all | {' | '.join(map(_passed, columns))} | {_rest(everything)} |")
    return "\n".join(lines)


def _passed(results: Results) -> str:
    """Return passed items out of all that were asked."""
    return f"{sum(isinstance(one, Grade) and one.passed for one in results)}/{len(results)}"


def _rest(results: Results) -> str:
    """Return the cells beside the levels; a mean over no grade is a dash."""
    grades = [one for one in results if isinstance(one, Grade)]
    kinds = Counter(one.kind for one in results if isinstance(one, Failure))
    mean = f"{sum(one.score for one in grades) / len(grades):.2f}" if grades else "-"
    failures = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items()))
    return f"{mean} | {sum(not one.answered for one in grades)} | {failures or '-'}"


def reply(sample: StoredSample) -> str:
    """Return one reply with its grade, for the eye."""
    result = sample.result
    said = (
        f"{result.kind} {result.detail}"
        if isinstance(result, Failure)
        else f"{result.score:g} {'' if result.answered else 'unanswered '}by {result.grader} ({result.detail})"
    )
    return f"{sample.key.item_id}: {said}\n    {sample.text!r}"


def main() -> None:
    """Print what the command line asks for."""
    parser = argparse.ArgumentParser(prog="benchmarks.local_model", description=__doc__)
    parser.add_argument("store", metavar="STORE_URL")
    parser.add_argument("--series", default="main")
    parser.add_argument("--replies", type=int, default=0, metavar="N")
    options = parser.parse_args()
    with open_store(options.store) as store, store.read() as connection:
        for arm in read.arms(connection, options.series):
            found = samples.samples(connection, Span(options.series, arm.name, date.min, date.max))
            print(f"{arm.name} ({arm.model}): {len(found)} samples\n\n{table(found)}\n")
            if options.replies and arm.role == "tracked":
                for sample in found[:: max(1, len(found) // options.replies)]:
                    print(reply(sample))


if __name__ == "__main__":
    main()
