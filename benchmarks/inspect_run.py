"""The same prompts through inspect_ai's eval and its openai provider: `FOLDER BASE_URL`; runs in inspect_ai's own venv.

Prints the processor seconds of the eval and the peak memory of the process.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from inspect_ai import Task
from inspect_ai import eval as inspect_eval
from inspect_ai.dataset import Sample
from inspect_ai.model import get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, system_message


def main() -> None:
    """Run one eval and print its figures."""
    folder, base_url = Path(sys.argv[1]), sys.argv[2]
    asked = json.loads((folder / "inspect.json").read_text())
    model = get_model(f"openai/{asked['model']}", base_url=base_url, api_key="sk-bench", responses_api=False)
    dataset = [Sample(input=prompt, target=target) for prompt, target in asked["items"]]
    task = Task(dataset=dataset, solver=[system_message(asked["system"]), generate()], scorer=includes())
    began_s = time.process_time()
    (log,) = inspect_eval(
        task, model=model, display="none", max_connections=asked["concurrency"], log_dir=str(folder / "logs")
    )
    run_s = time.process_time() - began_s
    assert log.status == "success", log.error
    assert log.results is not None
    assert log.results.completed_samples == len(dataset)
    peak = Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]
    print(json.dumps({"run_s": run_s, "peak_mib": int(peak) / 1024}), file=sys.stderr)


if __name__ == "__main__":
    main()
