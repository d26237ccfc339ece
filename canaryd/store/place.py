"""The file of a SQLite store as it was opened: whoever moves, deletes or replaces it is noticed before the next row."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from canaryd.errors import StoreUnavailable
from canaryd.store.trouble import full_disk


@dataclass(frozen=True, slots=True)
class Place:
    """A path, with the device and the inode of the file that was there when the store was opened."""

    path: Path
    device: int
    inode: int

    def require(self) -> None:
        """Raise StoreUnavailable unless the path still names that file.

        SQLite itself does not look: it would go on writing into a file that no path leads to.
        """
        try:
            found = self.path.stat()
        except OSError as error:
            raise StoreUnavailable(
                f"store {self.path} was moved or deleted while it was open ({error.strerror}), so that nothing more is "
                "written into it; put the file back, or stop canaryd, restore a backup and start again"
            ) from None
        if (found.st_dev, found.st_ino) != (self.device, self.inode):
            raise StoreUnavailable(
                f"store {self.path} was replaced by another file while it was open, so that nothing is written into "
                f"either; stop canaryd, remove {self.path.name}-wal and {self.path.name}-shm, which belong to the old "
                "one, and start again"
            )

    def require_room(self) -> None:
        """Raise StoreUnavailable where the disk is full: a short transaction may still fit into the log, a run not."""
        full = full_disk(self.path.parent)
        if full is not None:
            raise StoreUnavailable(f"store {self.path} cannot be written: {full}; free space on it")


def require_not_taken_away(file: Path) -> None:
    """Raise StoreUnavailable where a store is missing or empty and what SQLite keeps beside an open one is still there.

    A store that is made or opened there would replace the log, which holds the last rows of the one that was there.
    """
    left = [beside for end in ("-wal", "-shm") if (beside := file.with_name(f"{file.name}{end}")).exists()]
    if left and not (file.exists() and file.stat().st_size):
        names = " and ".join(beside.name for beside in left)
        raise StoreUnavailable(
            f"store {file} was moved, deleted or emptied while it was open: {names} of it still stand there, with what "
            f"was stored last; put the file back, or, where it is lost, stop canaryd, remove {names} and restore a "
            "backup"
        )


def place_of(file: Path | None) -> Place | None:
    """Return where the file of a store is, None where there is none (yet)."""
    if file is None:
        return None
    path = file.absolute()
    try:
        found = path.stat()
    except OSError:
        return None
    return Place(path, found.st_dev, found.st_ino)
