"""The runs of a series as logs of Inspect (`.eval`), one for each arm and day, for its viewer and its tools."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from canaryd import __version__
from canaryd.errors import UsageError
from canaryd.hashing import digest
from canaryd.records import Grade, Run
from canaryd.store import read, samples
from canaryd.store.rows import PanelFiles, Span, StoredArm, StoredSample

_SCORER = "canaryd"
_STOPS = {"stop": "stop", "length": "max_tokens", "refusal": "content_filter", "content_filter": "content_filter"}


def write_inspect_logs(connection: Connection, series: str, *, folder: Path, with_texts: bool) -> tuple[Path, ...]:
    """Write a log for each arm and slot date that has samples, and return the files; invalid samples are left out.

    A sample's epoch is its repetition on that day. Without texts, a sample's input is its item's id. A lone surrogate,
    which JSON cannot hold, becomes a backslash escape.

    Raises:
        UsageError: the package inspect_ai is not installed.
    """
    try:
        from inspect_ai.log import EvalLog, write_eval_log
    except ModuleNotFoundError:
        raise UsageError(
            "writing .eval needs the package inspect_ai, which is not installed; install canaryd[inspect], or export "
            "JSON lines"
        ) from None
    panel = read.panel(connection, read.series(connection, series).panel_digest)
    prompts = _prompts(panel.content) if with_texts else {}
    written = []
    for arm in read.arms(connection, series):
        latest = {run.start.slot_date: run for run in read.runs(connection, series) if run.start.arm == arm.name}
        for day, run in latest.items():
            found = samples.samples(connection, Span(series, arm.name, day, day))
            if found:
                log = {
                    "status": "success",
                    "eval": _spec(run, arm, panel=panel),
                    "stats": {"started_at": _first(found), "completed_at": _last(found)},
                    "results": _results(found),
                    "samples": [_sample(each, arm, prompts=prompts) for each in found],
                }
                written.append(folder / f"{day.isoformat()}_{series}_{arm.name}.eval")
                write_eval_log(EvalLog.model_validate(log), str(written[-1]), format="eval")
    return tuple(written)


def _prompts(content: bytes) -> dict[str, str]:
    """Return what each item of a panel asks."""
    items = (json.loads(line) for line in content.splitlines()[1:] if line.strip())
    return {str(item["id"]): str(item["prompt"]) for item in items}


def _spec(run: Run, arm: StoredArm, *, panel: PanelFiles) -> dict[str, Any]:
    start = run.start
    return {
        "eval_id": digest(f"{start.series} {start.arm} {start.slot_date}".encode()),
        "created": start.started_at.isoformat(),
        "task": start.series,
        "task_version": panel.version,
        "dataset": {"name": panel.name},
        "model": f"{arm.provider}/{arm.model}",
        "config": {},
        "packages": {"canaryd": __version__},
        "metadata": {
            "arm": arm.name,
            "role": arm.role,
            "slot_date": start.slot_date.isoformat(),
            "panel_digest": start.panel_digest,
            "registration_digest": start.registration_digest,
        },
    }


def _results(found: Sequence[StoredSample]) -> dict[str, Any]:
    scores = [sample.result.score for sample in found if isinstance(sample.result, Grade)]
    mean = {"mean": {"name": "mean", "value": sum(scores) / len(scores)}} if scores else {}
    named = {"scored_samples": len(scores), "unscored_samples": len(found) - len(scores)}
    return {
        "total_samples": len(found),
        "completed_samples": len(scores),
        "scores": [{"name": _SCORER, "scorer": _SCORER, "metrics": mean, **named}],
    }


def _sample(sample: StoredSample, arm: StoredArm, *, prompts: Mapping[str, str]) -> dict[str, Any]:
    key, result = sample.key, sample.result
    form: dict[str, Any] = {
        "id": key.item_id,
        "epoch": key.replicate + 1,
        "input": prompts.get(key.item_id, key.item_id),
        "target": "",
        "output": _output(sample, arm, with_text=bool(prompts)),
        "started_at": sample.asked_at.isoformat(),
        "completed_at": sample.ended_at.isoformat(),
        "total_time": (sample.ended_at - sample.asked_at).total_seconds(),
        "metadata": {"attempt": sample.attempt, "calls": sample.calls, "text_digest": sample.text_digest},
    }
    if isinstance(result, Grade):
        kept = {"grader": result.grader, "passed": result.passed, "answered": result.answered}
        form["scores"] = {_SCORER: {"value": result.score, "explanation": _clean(result.detail), "metadata": kept}}
    else:
        form["error"] = {"message": _clean(f"{result.kind}: {result.detail}"), "traceback": "", "traceback_ansi": ""}
    return form


def _output(sample: StoredSample, arm: StoredArm, *, with_text: bool) -> dict[str, Any]:
    if sample.stop is None:
        return {"model": arm.model}
    said = _clean(sample.text or "") if with_text else ""
    output: dict[str, Any] = {
        "model": _clean(sample.resolved_model or arm.model),
        "choices": [
            {
                "message": {"role": "assistant", "content": said, "source": "generate"},
                "stop_reason": _STOPS[sample.stop],
            }
        ],
    }
    if sample.input_tokens is not None and sample.output_tokens is not None:
        output["usage"] = {
            "input_tokens": sample.input_tokens,
            "output_tokens": sample.output_tokens,
            "total_tokens": sample.input_tokens + sample.output_tokens,
            "reasoning_tokens": sample.reasoning_tokens,
        }
    return output


def _clean(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _first(found: Sequence[StoredSample]) -> str:
    return min(sample.asked_at for sample in found).isoformat()


def _last(found: Sequence[StoredSample]) -> str:
    return max(sample.ended_at for sample in found).isoformat()
