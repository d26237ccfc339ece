"""What is now: the overview, and how the daemon works."""

from __future__ import annotations

from collections.abc import Mapping

from panels import Json, Panel, dashboard, label_variable, like, named

RED, ORANGE, YELLOW, GREEN, BLUE, GREY = "red", "orange", "yellow", "green", "blue", "gray"
RUNBOOKS = "https://example.org/canaryd/runbooks"
STATES_TEXT = f"""
**ok** no change is detected in the latest window. **warming_up** there are not two windows yet.

[regression]({RUNBOOKS}/CanarydRegressionDeclared) two windows in a row are worse than the baseline, and the control did
not move: the model changed. [platform_change]({RUNBOOKS}/CanarydPlatformChange) the control moved as well.
**unattributed_...** the control cannot say. [improvement]({RUNBOOKS}/CanarydImprovementDeclared) the same, upwards.

[not_evaluable]({RUNBOOKS}/CanarydNotEvaluable) a complete window could not be judged; `canaryd status` says why.

[Every alert has a runbook]({RUNBOOKS}); `canaryd report` has the whole argument.
"""


def overview() -> Json:
    """Return the dashboard to open first."""
    return dashboard(
        "canaryd overview", _overview_panels(), source="prometheus", variables=_variables(with_series=True)
    )


def operation() -> Json:
    """Return the dashboard of the daemon itself."""
    panels = [*_requests(), *_runs(), *_sandbox(), *_process()]
    return dashboard("canaryd operation", panels, source="prometheus", variables=_variables(with_series=False))


def _variables(*, with_series: bool) -> list[Json]:
    found = [label_variable("job", "canaryd_build_info"), label_variable("instance", "canaryd_build_info")]
    return [*found, label_variable("series", "canaryd_series_info")] if with_series else found


def _overview_panels() -> list[Panel]:
    one = {"textMode": "name", "colorMode": "background", "graphMode": "none"}
    plain = {"graphMode": "none", "reduceOptions": {"calcs": ["lastNotNull"]}}
    return [
        Panel(
            "stat",
            "State",
            "The state of each series, as the registered rule decided it after the latest window.",
            {"{{series}}: {{state}}": 'canaryd_alarm_state{@, series=~"$series"} == 1'},
            options=one,
            overrides=[
                _coloured(".*", GREY),
                _coloured(".*: ok", GREEN),
                _coloured(".*improvement", BLUE),
                _coloured(".*platform_change", YELLOW),
                _coloured(".*not_evaluable", ORANGE),
                _coloured(".*regression", RED),
            ],
            width=8,
            height=5,
        ),
        Panel(
            "stat",
            "In this state since",
            "When the series came into its state.",
            {"{{series}}": '1000 * canaryd_alarm_state_since_timestamp_seconds{@, series=~"$series"}'},
            unit="dateTimeFromNow",
            options=plain,
            width=4,
            height=5,
        ),
        Panel(
            "stat",
            "Last complete run",
            "How long ago the latest complete run of each arm ended. 36 h are a ticket, 60 h of a tracked arm a page.",
            {"{{series}} {{arm}}": ('time() - (canaryd_run_last_success_timestamp_seconds{@, series=~"$series"} > 0)')},
            unit="s",
            custom={"thresholds": _steps(GREEN, {26 * 3600: YELLOW, 36 * 3600: ORANGE, 60 * 3600: RED})},
            options=plain,
            width=6,
            height=5,
        ),
        Panel(
            "stat",
            "Next run",
            "When the next slot is due; a past time is a slot that is owed.",
            {"{{series}}": '1000 * canaryd_next_run_timestamp_seconds{@, series=~"$series"}'},
            unit="dateTimeFromNow",
            options=plain,
            width=6,
            height=5,
        ),
        _estimates(),
        Panel(
            "table",
            "Blocked",
            "Arms that are not measured, and why. Empty is good.",
            {"": 'max by (series, arm, reason) (canaryd_run_blocked{@, series=~"$series"}) == 1'},
            transformations=[_organized("Time", "Value")],
            width=8,
            height=6,
        ),
        Panel(
            "bargauge",
            "Budget",
            "Share of the budget that the current UTC day and month have used. Series without a limit are left out.",
            {
                "{{series}} {{period}}": (
                    'canaryd_budget_spent_usd{@, series=~"$series"} / on (job, instance, series, period) '
                    'canaryd_budget_limit_usd{@, series=~"$series"}'
                )
            },
            unit="percentunit",
            custom={"min": 0, "max": 1, "thresholds": _steps(GREEN, {0.9: ORANGE, 1: RED})},
            options={"orientation": "horizontal", "reduceOptions": {"calcs": ["lastNotNull"]}},
            width=8,
            height=6,
        ),
        Panel(
            "alertlist",
            "Alerts",
            "What fires now.",
            options={"alertName": "Canaryd", "stateFilter": {"firing": True, "pending": True}, "viewMode": "list"},
            width=8,
            height=6,
        ),
        Panel(
            "text",
            "What the states mean",
            "The states of a series, in one sentence each.",
            options={"mode": "markdown", "content": STATES_TEXT.strip()},
            width=24,
            height=6,
        ),
    ]


def _estimates() -> Panel:
    """Return the table of the latest windows, one row an arm."""
    latest = 'max by (series, arm) ({}{{@, series=~"$series", window="latest"}})'
    of_series = (
        'max by (series, arm) (canaryd_arm_info{@, series=~"$series"} * on (job, instance, series) group_left () '
        'canaryd_rule_min_effect_ratio{@, series=~"$series"})'
    )
    names = ("delta", "delta_ci_lower", "delta_ci_upper", "mde", "tokens_change")
    columns = {name: latest.format(f"canaryd_window_{name}_ratio") for name in names}
    columns["threshold"] = of_series
    columns["baseline"] = 'max by (series, arm) (canaryd_baseline_score_ratio{@, series=~"$series"})'
    columns["pairs"] = latest.format("canaryd_window_pairs")
    titles = ["Change", "Lower", "Upper", "MDE", "Tokens", "Threshold", "Baseline", "Pairs"]
    renamed = {f"Value #{chr(ord('A') + n)}": title for n, title in enumerate(titles)}
    return Panel(
        "table",
        "Latest window",
        "Change of the mean score against the baseline with its interval, and what the window could have seen.",
        columns,
        unit="percentunit",
        custom={"decimals": 1},
        overrides=[named("Pairs", unit="none", decimals=0)],
        transformations=[
            {"id": "merge", "options": {}},
            _organized("Time", renamed=renamed),
        ],
        width=24,
        height=6,
    )


def _requests() -> list[Panel]:
    seconds = "canaryd_provider_request_duration_seconds_bucket{@}[$__rate_interval]"
    return [
        Panel(
            "timeseries",
            "Requests",
            "Calls to the providers, every attempt counted.",
            {"{{series}} {{arm}}": "sum by (series, arm) (rate(canaryd_provider_requests_total{@}[$__rate_interval]))"},
            unit="reqps",
        ),
        Panel(
            "timeseries",
            "Requests that failed",
            "Share of the calls that brought no reply, by kind.",
            {
                "{{series}} {{arm}} {{reason}}": (
                    "sum by (series, arm, reason) (rate(canaryd_provider_request_failures_total{@}[$__rate_interval])) "
                    "/ on (series, arm) group_left () "
                    "(sum by (series, arm) (rate(canaryd_provider_requests_total{@}[$__rate_interval])) > 0)"
                )
            },
            unit="percentunit",
        ),
        Panel(
            "timeseries",
            "Duration of a request",
            "Median and 95th percentile over all arms.",
            {
                f"p{100 * share:.0f} {{{{arm}}}}": (f"histogram_quantile({share}, sum by (le, arm) (rate({seconds})))")
                for share in (0.5, 0.95)
            },
            unit="s",
        ),
        Panel(
            "timeseries",
            "Retries",
            "Calls that repeated one which measured nothing.",
            {"{{series}} {{arm}}": "sum by (series, arm) (rate(canaryd_provider_retries_total{@}[$__rate_interval]))"},
            unit="reqps",
        ),
    ]


def _runs() -> list[Panel]:
    return [
        Panel(
            "timeseries",
            "Runs: duration and lateness",
            "How long the latest run took, and how late its slot was started.",
            {
                "{{series}} {{arm}} took": "canaryd_run_last_duration_seconds{@}",
                "{{series}} late": "canaryd_schedule_lateness_seconds{@}",
            },
            unit="s",
        ),
        Panel(
            "timeseries",
            "Missed slots",
            "Slots of the last day that no process ran.",
            {"{{series}}": "increase(canaryd_slots_missed_total{@}[1d])"},
            unit="none",
        ),
        Panel(
            "timeseries",
            "Writes to the store",
            "Committed transactions, and those that the database failed.",
            {
                "written": "sum by (instance) (rate(canaryd_store_writes_total{@}[$__rate_interval]))",
                "failed": "sum by (instance) (rate(canaryd_store_write_failures_total{@}[$__rate_interval]))",
            },
            unit="wps",
        ),
        Panel(
            "timeseries",
            "Size of the store",
            "Bytes of the database.",
            {"{{instance}}": "canaryd_store_size_bytes{@}"},
            unit="bytes",
            custom={"min": 0},
        ),
        Panel(
            "timeseries",
            "Snapshot",
            "Age of the exported figures, and what taking them cost.",
            {
                "{{instance}} age": "time() - canaryd_snapshot_timestamp_seconds{@}",
                "{{instance}} cost": "canaryd_snapshot_duration_seconds{@}",
            },
            unit="s",
        ),
    ]


def _sandbox() -> list[Panel]:
    seconds = "canaryd_sandbox_execution_duration_seconds_bucket{@}[$__rate_interval]"
    return [
        Panel(
            "timeseries",
            "Programs in the sandbox",
            "Programs of models that were run; only code items have any.",
            {"{{instance}}": "sum by (instance) (rate(canaryd_sandbox_executions_total{@}[$__rate_interval]))"},
            unit="ops",
        ),
        Panel(
            "timeseries",
            "Programs without a result",
            "Programs that the sandbox ended or could not run, by reason; one that fails its tests has a result.",
            {"{{reason}}": "sum by (reason) (rate(canaryd_sandbox_failures_total{@}[$__rate_interval]))"},
            unit="ops",
        ),
        Panel(
            "timeseries",
            "Duration of a program",
            "Median and 95th percentile.",
            {
                f"p{100 * share:.0f}": f"histogram_quantile({share}, sum by (le) (rate({seconds})))"
                for share in (0.5, 0.95)
            },
            unit="s",
        ),
    ]


def _process() -> list[Panel]:
    return [
        Panel(
            "timeseries",
            "Memory",
            "Resident memory of the daemon.",
            {"{{instance}}": "process_resident_memory_bytes{@}"},
            unit="bytes",
            custom={"min": 0},
        ),
        Panel(
            "timeseries",
            "Processor",
            "Processor time of the resident process; runs have a process of their own.",
            {"{{instance}}": "rate(process_cpu_seconds_total{@}[$__rate_interval])"},
            unit="percentunit",
        ),
        Panel(
            "timeseries",
            "Open files",
            "File descriptors in use.",
            {"{{instance}}": "process_open_fds{@}"},
            unit="none",
            custom={"min": 0},
        ),
        Panel(
            "timeseries",
            "Log lines",
            "Lines of the last hour, by level.",
            {"{{level}}": "sum by (level) (increase(canaryd_log_messages_total{@}[1h]))"},
            unit="none",
        ),
        Panel(
            "table",
            "What runs",
            "Version and configuration, panel and registration, head of the ledger, harness of the latest runs.",
            {
                "build": "canaryd_build_info{@}",
                "configuration": "canaryd_loaded_config_info{@}",
                "series": "canaryd_series_info{@}",
                "ledger": "canaryd_ledger_info{@}",
                "harness": "canaryd_harness_info{@}",
            },
            transformations=[
                {"id": "merge", "options": {}},
                _organized("Time", "__name__", "job", *(f"Value #{ref}" for ref in "ABCDE")),
            ],
            width=24,
        ),
    ]


def _coloured(pattern: str, color: str) -> Json:
    return like(pattern, color={"mode": "fixed", "fixedColor": color})


def _steps(base: str, above: dict[float, str]) -> Json:
    steps = [{"color": base, "value": None}, *({"color": color, "value": value} for value, color in above.items())]
    return {"mode": "absolute", "steps": steps}


def _organized(*hidden: str, renamed: Mapping[str, str] | None = None) -> Json:
    """Return the transformation that hides columns and renames others, the series first."""
    options: Json = {"excludeByName": dict.fromkeys(hidden, True), "indexByName": {"series": 0, "arm": 1}}
    return {"id": "organize", "options": options | ({} if renamed is None else {"renameByName": dict(renamed)})}
