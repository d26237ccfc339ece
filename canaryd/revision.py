"""The commit that the running canaryd is of, where it can be known."""

from __future__ import annotations

import json
import shutil
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

_ROOT = Path(__file__).parents[1]


@cache
def revision() -> str | None:
    """Return the commit of the checkout (`-dirty` where files differ from it) or of the git URL it was installed from.

    None where neither is known: a wheel says no more than its version.
    """
    return of_checkout(_ROOT) if (_ROOT / ".git").exists() else _of_installation()


def of_checkout(root: Path) -> str | None:
    """Return the commit of a checkout, None where git is not installed or cannot tell."""
    git = shutil.which("git")
    if git is None:
        return None
    # No tag, which may be moved, and no lock, which another git may want.
    described = ["describe", "--always", "--exclude=*", "--abbrev=40", "--dirty"]
    command = [git, "--no-optional-locks", f"--git-dir={root / '.git'}", f"--work-tree={root}", *described]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - git, no shell
    return done.stdout.strip() or None


def _of_installation() -> str | None:
    try:
        return commit_in(distribution("canaryd").read_text("direct_url.json"))
    except PackageNotFoundError:
        return None


def commit_in(direct_url: str | None) -> str | None:
    """Return the commit that an installer noted in `direct_url.json`, None where it was given no repository.

    >>> commit_in('{"url": "https://host.test/canaryd", "vcs_info": {"vcs": "git", "commit_id": "0123abcd"}}')
    '0123abcd'
    >>> commit_in('{"url": "file:///tmp/canaryd.whl", "archive_info": {}}'), commit_in(None)
    (None, None)
    """
    noted = json.loads(direct_url) if direct_url else {}
    commit: str | None = noted.get("vcs_info", {}).get("commit_id")
    return commit
