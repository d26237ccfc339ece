"""What a simulated model says as a judge of a panel's answers (pure)."""

from __future__ import annotations

import json
import re

_ASKED = re.compile(
    r"<reference>\n(?P<reference>.*)\n</reference>\n\n<answer>\n(?P<answer>.*)\n</answer>\s*\Z", re.DOTALL
)


def opinion(prompt: str, *, always: str | None = None) -> str:
    """Return what a judge answers: `always`, where it is given, else a label by how the answer holds the reference.

    >>> asked = "<reference>\\nin 1789\\n</reference>\\n\\n<answer>\\n{}\\n</answer>\\n"
    >>> [json.loads(opinion(asked.format(answer)))["label"] for answer in ("in 1789", "in 1789 or so", "never")]
    ['correct', 'partial', 'incorrect']
    """
    found = _ASKED.search(prompt)
    reference, answer = (found["reference"].strip(), found["answer"].strip()) if found else ("", "")
    label = "correct" if answer == reference else "partial" if reference in answer else "incorrect"
    return json.dumps({"label": always or label, "rationale": "held against the reference"})
