"""The views that dashboards and people read: `docs/grafana/README.md` names their columns.

They read v_effective_sample, so a later revision that makes that one again drops these before and makes them after.
"""

import re

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

#: What the databases say differently. In a view, @name(value, path) stands for it; a path leads into a JSON document,
#: and the name of the arm in it is written <arm>.
SQLITE = {
    "seconds": "CAST(strftime('%s', {value}) AS INTEGER)",
    "midnight": "CAST(strftime('%s', {value}) AS INTEGER)",
    "day": "{value}",
    "document": "{value}",
    "part": "json_extract({value}, {path})",
    "figure": "json_extract({value}, {path})",
    "word": "json_extract({value}, {path})",
    "hits": "json_each({value}, '$.hit')",
}
POSTGRES = {
    "seconds": "CAST(EXTRACT(EPOCH FROM {value}) AS BIGINT)",
    "midnight": "CAST(EXTRACT(EPOCH FROM CAST({value} AS DATE)) AS BIGINT)",
    "day": "to_char({value}, 'YYYY-MM-DD')",
    "document": "CAST({value} AS json)",
    "part": "({value} #> {path})",
    "figure": "CAST({value} #>> {path} AS DOUBLE PRECISION)",
    "word": "({value} #>> {path})",
    "hits": "json_array_elements({value} -> 'hit')",
}
DIFFERS = re.compile(r"@(\w+)\(([^(),]+)(?:, ([^(),]+))?\)")

VIEWS = {
    "v_alarm_event": """
SELECT alarm.series, alarm.alarm_id, @seconds(alarm.since) AS time, alarm.state, verdict.epoch, verdict.window_index
FROM alarm LEFT JOIN verdict ON verdict.verdict_id = alarm.verdict_id
""",
    # One row per window and arm, of the verdict that stands.
    "v_window_stat": """
SELECT series, arm, role, epoch, window_index, first_date, last_date, @midnight(last_date) AS time,
  verdict, direction, attribution,
  @word(state, state) AS window_state,
  @figure(state, estimate.delta) AS delta,
  @figure(state, estimate.ci.0) AS ci_lower,
  @figure(state, estimate.ci.1) AS ci_upper,
  @figure(state, estimate.se) AS standard_error,
  @figure(state, estimate.items_paired) AS pairs,
  @figure(state, usable_days) AS usable_days,
  @figure(state, attempts) AS attempts,
  @figure(state, errors) AS errors,
  (SELECT @figure(hit.value, limit) FROM @hits(state) AS hit WHERE @word(hit.value, clause) = 'min_effect')
    AS threshold,
  mde, baseline_score, tokens_change, tokens_ci_lower, tokens_ci_upper,
  difference, difference_ci_lower, difference_ci_upper
FROM (
  SELECT stood.series, arm.arm, arm.role, stood.epoch, stood.window_index, stood.verdict, stood.direction,
    stood.attribution,
    @word(stood.clauses, first) AS first_date,
    @word(stood.clauses, last) AS last_date,
    CASE WHEN arm.role = 'tracked' THEN @part(stood.clauses, window)
      ELSE @part(stood.clauses, controls.<arm>.window) END AS state,
    CASE WHEN arm.role = 'tracked' THEN @figure(stood.clauses, mde.two_windows) END AS mde,
    @figure(stood.clauses, arms.<arm>.headroom.mean) AS baseline_score,
    @figure(stood.clauses, arms.<arm>.tokens.change) AS tokens_change,
    @figure(stood.clauses, arms.<arm>.tokens.ci.0) AS tokens_ci_lower,
    @figure(stood.clauses, arms.<arm>.tokens.ci.1) AS tokens_ci_upper,
    @figure(stood.clauses, attribution.controls.<arm>.difference.delta) AS difference,
    @figure(stood.clauses, attribution.controls.<arm>.difference.ci_item.0) AS difference_ci_lower,
    @figure(stood.clauses, attribution.controls.<arm>.difference.ci_item.1) AS difference_ci_upper
  FROM (
    SELECT series, epoch, window_index, kind AS verdict, direction, attribution,
      @document(clauses) AS clauses
    FROM verdict
    WHERE NOT EXISTS (SELECT 1 FROM verdict AS later WHERE later.supersedes = verdict.verdict_id)
  ) AS stood
  JOIN arm ON arm.series = stood.series AND arm.role <> 'replica'
) AS judged
""",
    "v_run": """
SELECT run_start.series, run_start.arm, arm.role, run_start.run_id, @day(run_start.slot_date) AS slot_date,
  @seconds(run_start.started_at) AS time, run_start.attempt, run_start.epoch, run_start.fingerprint,
  run_start.panel_digest, @seconds(run_start.started_at) - @seconds(run_start.due_at) AS lateness_seconds,
  @seconds(run_end.ended_at) - @seconds(run_start.started_at) AS duration_seconds, run_end.outcome, run_end.reason,
  run_usage.calls, run_usage.input_tokens, run_usage.output_tokens
FROM run_start
JOIN arm ON arm.series = run_start.series AND arm.arm = run_start.arm
LEFT JOIN run_end ON run_end.run_id = run_start.run_id
LEFT JOIN run_usage ON run_usage.run_id = run_start.run_id
""",
    # Sentinels are left out. Score and tokens are means over the valid samples that have one.
    "v_arm_day": """
SELECT each.series, each.arm, arm.role, each.epoch, @day(each.slot_date) AS slot_date,
  @seconds(each.slot_date) AS time,
  AVG(each.score) FILTER (WHERE each.invalid_reason IS NULL) AS score,
  COUNT(DISTINCT each.item_id) FILTER (WHERE each.invalid_reason IS NULL AND each.score IS NOT NULL) AS items,
  COUNT(*) AS samples,
  COUNT(each.score) FILTER (WHERE each.invalid_reason IS NULL) AS graded,
  COUNT(each.failure_kind) AS failed,
  COUNT(each.invalid_reason) AS invalid,
  AVG(CAST(each.input_tokens AS DOUBLE PRECISION)) FILTER (WHERE each.invalid_reason IS NULL) AS input_tokens,
  AVG(CAST(each.output_tokens AS DOUBLE PRECISION)) FILTER (WHERE each.invalid_reason IS NULL) AS output_tokens,
  AVG(CAST(each.reasoning_tokens AS DOUBLE PRECISION)) FILTER (WHERE each.invalid_reason IS NULL) AS reasoning_tokens
FROM v_effective_sample AS each JOIN arm ON arm.series = each.series AND arm.arm = each.arm
WHERE NOT each.sentinel
GROUP BY each.series, each.arm, arm.role, each.epoch, each.slot_date
""",
    "v_item_day": """
SELECT each.series, each.arm, arm.role, each.epoch, @day(each.slot_date) AS slot_date,
  @seconds(each.slot_date) AS time, each.item_id, each.family, CASE WHEN each.sentinel THEN 1 ELSE 0 END AS sentinel,
  AVG(each.score) FILTER (WHERE each.invalid_reason IS NULL) AS score,
  COUNT(*) AS samples,
  COUNT(each.score) FILTER (WHERE each.invalid_reason IS NULL) AS graded,
  AVG(CAST(each.output_tokens AS DOUBLE PRECISION)) FILTER (WHERE each.invalid_reason IS NULL) AS output_tokens
FROM v_effective_sample AS each JOIN arm ON arm.series = each.series AND arm.arm = each.arm
GROUP BY each.series, each.arm, arm.role, each.epoch, each.slot_date, each.item_id, each.family, each.sentinel
""",
    "v_model_resolution": """
SELECT each.series, each.arm, arm.role, @day(each.slot_date) AS slot_date, @seconds(each.slot_date) AS time,
  COALESCE(each.resolved_model, 'not reported') AS resolved_model, each.standing, COUNT(*) AS samples
FROM v_effective_sample AS each JOIN arm ON arm.series = each.series AND arm.arm = each.arm
WHERE each.standing IS NOT NULL
GROUP BY each.series, each.arm, arm.role, each.slot_date, COALESCE(each.resolved_model, 'not reported'), each.standing
""",
    # The reason is why a sample is invalid, else the kind of its failure.
    "v_failed_sample": """
SELECT series, arm, @day(slot_date) AS slot_date, @seconds(slot_date) AS time, @seconds(asked_at) AS asked_time,
  item_id, replicate, COALESCE(invalid_reason, failure_kind) AS reason, calls, response_id
FROM v_effective_sample
WHERE invalid_reason IS NOT NULL OR failure_kind IS NOT NULL
""",
    # What happened to an arm, what people said, and the slots that nobody measured.
    "v_event": """
SELECT series, arm, @day(slot_date) AS slot_date, @seconds(slot_date) AS time, kind, '' AS text FROM event
UNION ALL
SELECT series, '', @day(slot_date), @seconds(slot_date), kind, reason FROM deviation
UNION ALL
SELECT run_start.series, run_start.arm, @day(run_start.slot_date), @seconds(run_start.slot_date),
  run_end.outcome, run_end.reason
FROM run_start JOIN run_end ON run_end.run_id = run_start.run_id
WHERE run_end.outcome IN ('missed', 'refused')
""",
}


def upgrade() -> None:
    """Create the views."""
    for name, body in VIEWS.items():
        op.execute(f"CREATE VIEW {name} AS {DIFFERS.sub(_said, body)}")


def downgrade() -> None:
    """Drop them."""
    for name in VIEWS:
        op.execute(f"DROP VIEW {name}")


def _said(found: re.Match[str]) -> str:
    """Return what the database at hand calls it."""
    name, value, path = found.groups(default="")
    if op.get_bind().dialect.name == "sqlite":
        return SQLITE[name].format(value=value, path=_sqlite_path(path))
    return POSTGRES[name].format(value=value, path=_postgres_path(path))


def _sqlite_path(path: str) -> str:
    steps = "".join(f"[{key}]" if key.isdigit() else f".{key}" for key in path.split("."))
    return "'${}'".format(steps.replace("<arm>", "\"' || arm.arm || '\""))


def _postgres_path(path: str) -> str:
    return f"ARRAY[{', '.join('arm.arm' if key == '<arm>' else repr(key) for key in path.split('.'))}]"
