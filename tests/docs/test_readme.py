"""The README's commands, run as they stand; only the model behind them is simulated."""

import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from canaryd import graders
from canaryd.cli import COMMANDS
from canaryd.demo.server import ModelHost, ModelServer, free_port
from canaryd.panel import load
from canaryd.providers.simulated_answers import answer_pair
from canaryd.providers.simulated_model import SimulatedModel

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```sh\n(.*?)```", README, flags=re.DOTALL)


def sh(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(folder)}
    environment |= {"OPENAI_API_KEY": "sk-not-a-key", "CANARYD_CONFIG": str(folder / "mymodel/config.toml")}
    return subprocess.run(
        ["sh", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_the_two_commands_are_targets_of_the_makefile() -> None:
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    commands = [line.split() for line in BLOCKS[0].splitlines()]
    assert commands == [["make", "demo"], ["make", "check"]]
    assert {"demo", "check", "soak", "bench", "test"} <= set(targets)
    assert "exec make check" in (ROOT / ".ci/run").read_text()


def test_a_first_series_from_the_readme_alone(tmp_path: Path) -> None:
    assert len(BLOCKS) == 4
    made = sh("set -e\n" + BLOCKS[2], tmp_path)
    assert made.returncode == 0, made.stderr
    panel = load(str(tmp_path / "mymodel/panel/mine.jsonl"), graders=graders)
    port, config = free_port(), tmp_path / "mymodel/config.toml"
    text = config.read_text().replace("panel/starter.jsonl", "panel/mine.jsonl")
    config.write_text(text.replace("https://api.openai.com/v1", f"http://127.0.0.1:{port}/v1"))
    answers = {item.item_id: answer_pair(item) for item in panel.items}
    names = re.findall(r'^model = "(.*?)"', text, flags=re.MULTILINE)
    models = [SimulatedModel(model=name, arm=name, seed=1, answers=answers) for name in names]
    host = ModelHost.of(models, items=panel.items, today=lambda: datetime.now(UTC).date())
    with ModelServer(host, port=port):
        *commands, check = BLOCKS[3].strip().splitlines()
        run = sh("set -e\n" + "\n".join(commands), tmp_path)
    assert run.returncode == 0, run.stderr
    assert "tracked: completed" in run.stdout
    assert "day 1 of 20 of the baseline" in run.stdout
    assert sh(check, tmp_path).returncode == 2


def test_the_files_that_the_readme_names_exist() -> None:
    named = set(re.findall(r"\b(?:canaryd|docs|deploy)/[\w./-]*", README)) | {"CONTRIBUTING.md"}
    assert len(named) > 15
    assert [path for path in sorted(named) if not (ROOT / path.rstrip(".")).exists()] == []


def test_the_commands_that_the_readme_names_exist() -> None:
    named = set(re.findall(r"`?canaryd ([a-z]+)", README)) - {"answers", "asks"}
    assert named <= set(COMMANDS), named - set(COMMANDS)
