"""What was: the history of a series, and of its items, from the views of the store."""

from __future__ import annotations

from panels import FROM_TO, Json, Panel, annotation, band, dashboard, named, sql_variable

SERIES = "series = ${series:sqlstring}"
POINTS = {"custom": {"drawStyle": "points", "pointSize": 5}}
STATE_COLORS = {
    "ok": "green",
    "warming_up": "gray",
    "regression": "red",
    "unattributed_regression": "red",
    "improvement": "blue",
    "unattributed_improvement": "blue",
    "platform_change": "yellow",
    "not_evaluable": "orange",
}
WINDOWS = f"""
SELECT first_date || '/' || last_date AS days FROM v_window_stat WHERE {SERIES} AND role = 'tracked'
UNION
SELECT days FROM (
  SELECT MIN(slot_date) || '/' || MAX(slot_date) AS days FROM v_arm_day
  WHERE {SERIES} AND slot_date < (SELECT MIN(first_date) FROM v_window_stat WHERE {SERIES})
) AS baseline WHERE days IS NOT NULL
ORDER BY days
"""
#: On the day of a partial roll several models answered; the two databases share no function that joins texts.
ANSWERED = f"""
SELECT time, arm,
  CASE COUNT(*)
    WHEN 1 THEN MIN(resolved_model)
    WHEN 2 THEN MIN(resolved_model) || ' and ' || MAX(resolved_model)
    ELSE MIN(resolved_model) || ', ' || MAX(resolved_model) || ' and ' || (COUNT(*) - 2) || ' more'
  END AS models
FROM (
  SELECT DISTINCT time, arm, role, resolved_model FROM v_model_resolution
  WHERE {SERIES} AND role IN ('tracked', 'control') AND {FROM_TO}
) AS answered
GROUP BY time, arm, role ORDER BY time, role DESC, arm
"""


def series(source: str) -> Json:
    """Return the dashboard of one series over months."""
    controls = f"SELECT DISTINCT arm FROM v_run WHERE {SERIES} AND role = 'control' ORDER BY arm"
    variables = [_series_variable(source), sql_variable("control", _query(controls), source=source, is_multi=True)]
    marks = [annotation(name, _query(text), source=source, color=color) for name, (text, color) in ANNOTATIONS.items()]
    return dashboard("canaryd series", _series_panels(), source=source, variables=variables, annotations=marks)


def items(source: str) -> Json:
    """Return the dashboard of the items of a series between two windows."""
    names = f"SELECT DISTINCT item_id FROM v_item_day WHERE {SERIES} ORDER BY item_id"
    variables = [
        _series_variable(source),
        sql_variable("before", _query(WINDOWS), source=source),
        sql_variable("after", _query(WINDOWS), source=source),
        sql_variable("item", _query(names), source=source),
    ]
    return dashboard("canaryd items", _item_panels(), source=source, variables=variables)


def _series_variable(source: str) -> Json:
    return sql_variable("series", "SELECT DISTINCT series FROM v_run ORDER BY series", source=source)


def _query(text: str) -> str:
    return " ".join(text.split())


def _sql(text: str) -> dict[str, str]:
    return {"": _query(text)}


ANNOTATIONS = {
    "Declarations": (
        f"""
        SELECT time, state AS text FROM v_alarm_event
        WHERE {SERIES} AND {FROM_TO} AND state NOT IN ('ok', 'warming_up') ORDER BY time
        """,
        "red",
    ),
    "Events, deviations, lost slots": (
        f"""
        SELECT time, arm || ' ' || kind || ' ' || text AS text FROM v_event WHERE {SERIES} AND {FROM_TO} ORDER BY time
        """,
        "orange",
    ),
    "Other harness or panel": (
        f"""
        SELECT time, arm || ': another harness or panel' AS text
        FROM (
          SELECT time, arm, fingerprint, panel_digest,
            LAG(fingerprint) OVER (PARTITION BY arm ORDER BY time) AS last_fingerprint,
            LAG(panel_digest) OVER (PARTITION BY arm ORDER BY time) AS last_panel
          FROM v_run WHERE {SERIES} AND fingerprint IS NOT NULL
        ) AS measured
        WHERE {FROM_TO} AND (fingerprint <> last_fingerprint OR panel_digest <> last_panel) ORDER BY time
        """,
        "purple",
    ),
}


def _series_panels() -> list[Panel]:
    return [
        Panel(
            "state-timeline",
            "State",
            "The state that the registered rule decided, from its beginning to the next one.",
            _sql(f"SELECT time, state FROM v_alarm_event WHERE {SERIES} ORDER BY time"),
            custom={"mappings": [_mapping(STATE_COLORS)]},
            width=24,
            height=4,
        ),
        _change("Change of the tracked arm", "role = 'tracked'"),
        _change("Change of $control", "arm = ${control:sqlstring}", repeat="control"),
        Panel(
            "timeseries",
            "Mean score of a day",
            "One point a day; the days of a window differ by chance, so a single low one means little.",
            _sql(_per_arm("v_arm_day", "score")),
            unit="percentunit",
            custom=POINTS | {"min": 0, "max": 1},
            transformations=[_split_by("arm")],
        ),
        Panel(
            "timeseries",
            "Standard error and MDE",
            "The smallest change that the window could detect with the registered power, against the threshold.",
            _sql(
                f"""
                SELECT time, standard_error, mde, threshold FROM v_window_stat
                WHERE {SERIES} AND role = 'tracked' AND {FROM_TO} ORDER BY time
                """
            ),
            unit="percentunit",
        ),
        Panel(
            "timeseries",
            "Graded items of a day",
            "Items with a valid graded sample.",
            _sql(_per_arm("v_arm_day", "items")),
            unit="none",
            custom=POINTS | {"min": 0},
            transformations=[_split_by("arm")],
        ),
        Panel(
            "timeseries",
            "Samples that do not count",
            "Failed and invalid samples of a day, by reason.",
            _sql(
                f"""
                SELECT time, reason, COUNT(*) AS samples FROM v_failed_sample WHERE {SERIES} AND {FROM_TO}
                GROUP BY time, reason ORDER BY time, reason
                """
            ),
            unit="none",
            custom={
                "min": 0,
                "custom": {"drawStyle": "bars", "fillOpacity": 80, "stacking": {"mode": "normal", "group": "A"}},
            },
            transformations=[_split_by("reason")],
        ),
        Panel(
            "timeseries",
            "Tokens of a sample",
            "Means of a day of the tracked arm, by kind.",
            _sql(
                f"""
                SELECT time, input_tokens AS input, output_tokens AS output, reasoning_tokens AS reasoning
                FROM v_arm_day WHERE {SERIES} AND role = 'tracked' AND {FROM_TO} ORDER BY time
                """
            ),
            unit="none",
            custom=POINTS,
        ),
        Panel(
            "timeseries",
            "Change of the output tokens",
            "Relative change of the tracked arm against its baseline, with its interval.",
            _sql(
                f"""
                SELECT time, tokens_change AS change, tokens_ci_lower AS lower, tokens_ci_upper AS upper
                FROM v_window_stat WHERE {SERIES} AND role = 'tracked' AND {FROM_TO} ORDER BY time
                """
            ),
            unit="percentunit",
            overrides=band("lower", "upper"),
        ),
        Panel(
            "state-timeline",
            "Who answered",
            "The models that the provider said it was on that day; an echo of the asked name says nothing.",
            _sql(ANSWERED),
            transformations=[_split_by("arm")],
            width=24,
            height=5,
        ),
        Panel(
            "timeseries",
            "Headroom",
            "Mean score of the baseline: above 0.9 or below 0.1 there is little left to see.",
            _sql(_per_arm("v_window_stat", "baseline_score")),
            unit="percentunit",
            custom={"min": 0, "max": 1},
            transformations=[_split_by("arm")],
            width=24,
            height=6,
        ),
    ]


def _change(title: str, which: str, *, repeat: str | None = None) -> Panel:
    return Panel(
        "timeseries",
        title,
        "Change of the mean score of a window against the baseline, with its interval and the registered threshold.",
        _sql(
            f"""
            SELECT time, delta, ci_lower AS lower, ci_upper AS upper,
              threshold, -threshold AS minus_threshold, 0 AS zero
            FROM v_window_stat WHERE {SERIES} AND {which} AND {FROM_TO} ORDER BY time
            """
        ),
        unit="percentunit",
        overrides=[
            *band("lower", "upper"),
            *(named(each, custom__lineStyle={"fill": "dash"}) for each in ("threshold", "minus_threshold", "zero")),
        ],
        width=24,
        repeat=repeat,
    )


def _per_arm(view: str, column: str, *, where: str = SERIES) -> str:
    return f"""
    SELECT time, arm, {column} FROM {view}
    WHERE {where} AND role IN ('tracked', 'control') AND {FROM_TO} ORDER BY time, role DESC, arm
    """


def _item_panels() -> list[Panel]:
    return [
        Panel(
            "table",
            "Items by change",
            "Mean score of each item before and after, over all controls; the largest change of the tracked arm first; "
            "no sentinels.",
            _sql(
                f"""
                SELECT item_id, family, tracked_after - tracked_before AS change, tracked_before, tracked_after,
                  control_before, control_after, graded, not_graded
                FROM (
                  SELECT item_id, family, {_between("tracked", "before")}, {_between("tracked", "after")},
                    {_between("control", "before")}, {_between("control", "after")},
                    {_counted("graded")} AS graded, {_counted("samples - graded")} AS not_graded
                  FROM v_item_day WHERE {SERIES} AND sentinel = 0 GROUP BY item_id, family
                ) AS per_item
                ORDER BY COALESCE(ABS(tracked_after - tracked_before), -1) DESC, item_id
                """
            ),
            custom={"decimals": 2},
            width=24,
            height=12,
        ),
        Panel(
            "status-history",
            "Items and days",
            "Mean score of the tracked arm, one row an item.",
            _sql(
                f"""
                SELECT time, item_id, score FROM v_item_day
                WHERE {SERIES} AND role = 'tracked' AND sentinel = 0 AND {FROM_TO} ORDER BY time, item_id
                """
            ),
            unit="percentunit",
            custom={"min": 0, "max": 1, "color": {"mode": "continuous-RdYlGr"}},
            transformations=[_split_by("item_id")],
            width=24,
            height=16,
        ),
        *(
            Panel(
                "timeseries",
                f"{title} of $item",
                text,
                _sql(_per_arm("v_item_day", column, where=f"{SERIES} AND item_id = ${{item:sqlstring}}")),
                unit=unit,
                custom=POINTS,
                transformations=[_split_by("arm")],
            )
            for title, column, unit, text in (
                ("Score", "score", "percentunit", "Mean score of each day."),
                ("Output tokens", "output_tokens", "none", "Mean output tokens of each day."),
            )
        ),
        Panel(
            "table",
            "Samples that do not count",
            "Failed and invalid samples, the newest first, with the request id for the provider's support.",
            _sql(
                f"""
                SELECT time, arm, item_id, replicate, reason, calls, response_id FROM v_failed_sample
                WHERE {SERIES} AND {FROM_TO} ORDER BY asked_time DESC LIMIT 500
                """
            ),
            width=24,
        ),
    ]


def _between(role: str, window: str) -> str:
    """Return the mean of an arm's days in a window."""
    return f"AVG(CASE WHEN role = '{role}' AND {_within(window)} THEN score END) AS {role}_{window}"


def _counted(what: str) -> str:
    """Return the sum over both windows and arms."""
    return f"SUM(CASE WHEN {_within('before')} OR {_within('after')} THEN {what} ELSE 0 END)"


def _within(window: str) -> str:
    """Return the condition that a day is in a window, whose variable reads FIRST/LAST."""
    return f"slot_date BETWEEN substr(${{{window}:sqlstring}}, 1, 10) AND substr(${{{window}:sqlstring}}, 12, 10)"


def _mapping(colors: dict[str, str]) -> Json:
    options = {state: {"color": color, "index": n} for n, (state, color) in enumerate(colors.items())}
    return {"type": "value", "options": options}


def _split_by(column: str) -> Json:
    return {"id": "partitionByValues", "options": {"fields": [column], "keepFields": False}}
