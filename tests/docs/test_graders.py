"""The example of the page about graders, run as it stands."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "graders.md"


def test_the_example_of_judged_items(tmp_path: Path) -> None:
    (script,) = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    done = subprocess.run(
        ["sh", "-c", f"set -e\n{script}"],
        cwd=tmp_path,
        env={"PATH": path, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "tracked: completed" in done.stdout
    assert "judge simulated:judge:1 ok in the slot of" in done.stdout
    assert "it agrees with people on 2 of 2 anchors" in done.stdout
