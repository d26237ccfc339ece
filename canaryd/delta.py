"""One named difference between two states of something that was pinned or recorded."""

from __future__ import annotations

from dataclasses import dataclass

#: Stands for a value that is not disclosed: it is equal to nothing and different from nothing.
WITHHELD = "withheld"


@dataclass(frozen=True, slots=True)
class Delta:
    """One thing that differs, by name, with both values; a long or private value stands there as its digest."""

    name: str
    before: str
    after: str

    def __str__(self) -> str:
        """`name: before -> after`, digests cut short.

        >>> str(Delta("system", "sha256:0123456789abcdef", "absent"))
        'system: sha256:0123456789ab… -> absent'
        """
        return f"{self.name}: {_short(self.before)} -> {_short(self.after)}"


def _short(value: str) -> str:
    return f"{value[:19]}…" if value.startswith("sha256:") else value
