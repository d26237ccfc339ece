"""The pool that is screened where a person brings none: generated from a seed that nobody knows."""

from __future__ import annotations

import secrets
from pathlib import Path

from canaryd.errors import UsageError
from canaryd.generators import FAMILIES, generate
from canaryd.panel import system_path


def generate_pool(path: Path, *, size: int, families: str | None) -> Path:
    """Write a generated pool to `path` and return where its seed was written, readable by its owner alone.

    The pool's header holds a commitment to the seed, so that the seed can be published later and checked. `families`
    are names separated by commas, None is all of them.

    Raises:
        UsageError: a family does not exist, or has fewer questions than that.
    """
    chosen = tuple(families.split(",")) if families else tuple(FAMILIES)
    if unknown := [name for name in chosen if name not in FAMILIES]:
        raise UsageError(f"--families names {unknown[0]!r}, which does not exist; there are {', '.join(FAMILIES)}")
    seed = secrets.token_hex(32)
    try:
        made = generate(seed, size=size, name=path.stem, families=chosen)
    except ValueError as error:
        raise UsageError(f"--size {size}: {error}") from None
    seed_file = path.with_suffix(".seed.txt")
    path.parent.mkdir(parents=True, exist_ok=True)
    seed_file.touch(mode=0o600)
    seed_file.write_text(seed + "\n")
    Path(system_path(str(path))).write_bytes(made.system)
    path.write_bytes(made.items)
    return seed_file
