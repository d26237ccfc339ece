"""Every metric of canaryd, as data: its name (without the prefix), type, labels and help text.

`source` says where its value comes from: the `store` (a snapshot, so that a restart loses nothing) or the `process`
itself. Rendering takes names, labels and texts from here, so nothing can be exported that is not in this list.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from canaryd.records import FAILURE_KINDS

Kind = Literal["gauge", "counter", "histogram"]
Source = Literal["store", "process"]

PREFIX = "canaryd_"
BLOCKED_REASONS = (
    "harness_drift",
    "panel_mismatch",
    "registration_mismatch",
    "budget",
    "credentials",
    "configuration",
    "sandbox_unavailable",
    "store_unavailable",
    "schema_outdated",
    "not_holder",
    "clock_untrusted",
    "canary_failed",
)
FAILURE_REASONS = tuple(sorted(FAILURE_KINDS))
TOKEN_KINDS = ("input", "output", "reasoning")
WINDOWS = ("latest", "previous")
#: The clauses of a window that may fail; a test holds them to the rule.
NOT_EVALUABLE_REASONS = (
    "baseline_harness",
    "baseline_error_rate",
    "baseline_too_few_days",
    "no_data",
    "error_rate",
    "harness",
    "too_few_days",
    "too_few_items",
    "too_few_clusters",
    "no_day_leg",
    "previous_window",
)
#: Why a program that a model wrote brought no result: the sandbox failed, ended it, or two runs of it did not agree.
SANDBOX_REASONS = ("differs", "memory", "output_limit", "protocol_error", "sandbox_error", "timeout")
REQUEST_BUCKETS_S = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0)
SANDBOX_BUCKETS_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 40.0)

#: The values of the label `state` of each state set; exactly one of them is 1.
STATES = {
    "alarm_state": (
        "warming_up",
        "ok",
        "regression",
        "improvement",
        "platform_change",
        "unattributed_regression",
        "unattributed_improvement",
        "not_evaluable",
    ),
    "early_warning_state": ("warming_up", "ok", "alarm"),
    "token_state": ("warming_up", "ok", "increase", "decrease", "not_evaluable"),
    "outcome_rate_state": ("warming_up", "ok", "moved", "not_evaluable"),
    "judge_state": ("none", "ok", "moved", "unjudged"),
    "sentinel_state": ("none", "warming_up", "ok", "moved", "collapsed", "unjudged"),
}


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric; a counter's exposed name ends in `_total`, which `name` holds too."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    text: str
    source: Source


def _rows(source: Source, kind: Kind, *, table: str) -> list[Metric]:
    """Parse lines of `name | labels | help`."""
    cells = [[cell.strip() for cell in line.split("|")] for line in table.strip().splitlines()]
    return [Metric(name, kind, tuple(labels.split()), text, source) for name, labels, text in cells]


_GAUGES = """
build_info | version revision python_version | The running canaryd; always 1.
series_info | series panel registration_digest panel_digest | A registered series; always 1.
arm_info | series arm role provider model | An arm of a series as registered; always 1.
arm_resolved_info | series arm requested_model resolved_model standing | Who answered in the latest run; always 1.
harness_info | series arm fingerprint | The harness fingerprint of the latest measured run; always 1.
ledger_info | series head | The head of the ledger of the series; always 1.
alarm_state | series state | The state of the series; 1 for the current one.
alarm_state_since_timestamp_seconds | series | When the current alarm state began.
alarm_acknowledged_until_timestamp_seconds | series state | Until when somebody has acknowledged an alarm state.
not_evaluable_reason | series reason | Whether the latest window is not evaluable for this reason.
early_warning_state | series stream state | The state of an early-warning stream; 1 for the current one.
early_warning_capital | series stream | The capital of an early-warning stream after its latest day.
early_warning_threshold | series stream | The capital at which an early-warning stream alarms.
token_state | series state | Whether the tracked arm's output tokens moved; 1 for the current state.
outcome_rate_state | series state | Whether refusals and the like moved; 1 for the current state.
sentinel_state | series state | The state of the sentinels; 1 for the current one.
sentinel_unjudged_slots | series | Slots in a row, up to the latest, in which one sentinel was not judged.
sentinels_excluded | series | Sentinel items of the panel, which enter no estimate.
judge_info | series judge resolved_model | The judge of the panel's answers, and who answered for it last; always 1.
judge_state | series state | The state of the judge against its anchors; 1 for the current one.
judge_agreement_ratio | series | Share of the anchors on which the judge said last what people say.
judge_anchors_moved | series | Anchors that got another verdict than when the baseline began.
judged_primary | series | Whether what the judge grades enters the estimates.
judged_excluded | series | Judged items of the panel, which enter no estimate.
window_delta_ratio | series arm window | Change of the mean score against the baseline.
window_delta_ci_lower_ratio | series arm window | Lower bound of the change's confidence interval.
window_delta_ci_upper_ratio | series arm window | Upper bound of the change's confidence interval.
window_delta_standard_error_ratio | series arm window | Standard error of the change.
window_mde_ratio | series arm window | The smallest change that the rule detects with the registered power.
window_error_ratio | series arm window | Share of the window's samples that are harness failures.
window_outcome_failure_ratio | series arm window | Share of the window's answers that gave nothing to grade.
window_pairs | series arm window | Items that pair with the baseline.
window_unpaired_items | series arm window | Items of the panel that do not pair with the baseline.
window_usable_days | series arm window | Days of the window with enough measured items.
window_difference_ratio | series window | Change of the tracked arm minus that of the first control, over shared items.
window_difference_ci_lower_ratio | series window | Lower bound of the difference's confidence interval.
window_difference_ci_upper_ratio | series window | Upper bound of the difference's confidence interval.
window_tokens_change_ratio | series arm window | Relative change of the output tokens against the baseline.
window_tokens_change_ci_lower_ratio | series arm window | Lower bound of the token change's confidence interval.
window_tokens_change_ci_upper_ratio | series arm window | Upper bound of the token change's confidence interval.
window_start_timestamp_seconds | series window | When the window began.
window_end_timestamp_seconds | series window | When the window ended.
baseline_score_ratio | series arm | Mean score of the baseline.
rule_min_effect_ratio | series | The registered smallest effect that counts as a change.
rule_confidence_ratio | series | The registered confidence of the item leg.
rule_target_mde_ratio | series | The registered target of the MDE.
series_created_timestamp_seconds | series | When the series was registered.
run_last_success_timestamp_seconds | series arm | When the latest complete run that is not set aside ended; 0 is never.
run_last_completion_timestamp_seconds | series arm | When the latest measured run ended, complete or not; 0 is never.
run_last_duration_seconds | series arm | How long the latest measured run took.
run_score_ratio | series arm | Mean score of the latest measured slot.
run_samples | series arm | Samples of the latest measured slot.
run_failed_samples | series arm reason | Failed samples of the latest measured slot, by kind.
run_tokens_per_sample | series arm kind | Mean tokens of a sample of the latest measured slot that reported them.
run_blocked | series arm reason | Whether the arm is not measured for this reason.
run_in_progress | series | Whether a run of the series is open and its process lives.
run_zero_pass | series arm | Whether not one answer of the latest measured run passed.
resolved_model_changed_timestamp_seconds | series arm | When another model than before was last reported.
input_tokens_changed_timestamp_seconds | series arm | When the same items last took other input tokens.
event_last_timestamp_seconds | series arm kind | When an event of this kind last happened to the arm.
next_run_timestamp_seconds | series | When the next slot is due; it stays while that slot is owed.
schedule_lateness_seconds | series | How late the latest measured slot was first started.
store_size_bytes | | Size of the store.
budget_spent_usd | series period | Money that the series spent in the current UTC day or month.
budget_limit_usd | series period | The most money that the series may spend in a UTC day or month.
regrade_mismatches | series | Stored replies that the latest regrading graded differently.
"""
_COUNTERS = """
alarm_transitions_total | series state | Transitions into an alarm state.
runs_total | series arm | Runs that asked something.
samples_total | series arm | Stored samples, failures included.
samples_failed_total | series arm reason | Stored samples that are failures, by kind.
tokens_total | series arm kind | Tokens that the stored samples reported.
resolved_model_changes_total | series arm | Rolls of the reported model.
slots_missed_total | series | Slots that no process ran.
cost_usd_total | series arm | Money that the calls of the arm cost since the series began.
"""
_PROCESS_GAUGES = """
loaded_config_info | digest | The loaded configuration file; always 1.
scheduler_last_tick_timestamp_seconds | | When the scheduler ticked last.
store_up | | Whether the store could be read and written at the last try.
store_schema_current | | Whether the store's schema is the one of this canaryd.
snapshot_timestamp_seconds | | When the exported snapshot was taken.
snapshot_duration_seconds | | How long taking the snapshot took.
lease_held | series | Whether this process holds the lease of the series.
config_last_reload_successful | | Whether the last reading of the configuration succeeded.
config_last_reload_success_timestamp_seconds | | When the configuration was last read with success.
store_backup_last_success_timestamp_seconds | | When the daemon last copied the store; 0 is never.
"""
_PROCESS_COUNTERS = """
provider_requests_total | series arm | Calls to the provider, every attempt counted.
provider_retries_total | series arm | Calls that repeated one which measured nothing.
provider_request_failures_total | series arm reason | Calls that brought no reply, by kind.
store_writes_total | | Committed transactions.
store_write_failures_total | | Transactions that the database failed.
log_messages_total | level | Log lines by level.
clock_jumps_total | | Steps of the calendar clock.
sandbox_executions_total | | Programs of a model that were run in the sandbox.
sandbox_failures_total | reason | Programs that brought no result, by reason.
webhook_deliveries_total | | Messages that were posted to the webhook, every try counted.
webhook_failures_total | | Messages that the webhook did not take.
"""
_PROCESS_HISTOGRAMS = """
provider_request_duration_seconds | series arm | How long a call to the provider took.
sandbox_execution_duration_seconds | | How long a program took in the sandbox.
"""
METRICS: tuple[Metric, ...] = (
    *_rows("store", "gauge", table=_GAUGES),
    *_rows("store", "counter", table=_COUNTERS),
    *_rows("process", "gauge", table=_PROCESS_GAUGES),
    *_rows("process", "counter", table=_PROCESS_COUNTERS),
    *_rows("process", "histogram", table=_PROCESS_HISTOGRAMS),
)
BY_NAME = {metric.name: metric for metric in METRICS}
