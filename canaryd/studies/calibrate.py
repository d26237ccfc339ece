"""Calibration of a panel: screen a pool, confirm what is left on fresh samples, design the panel and freeze it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from canaryd import graders
from canaryd.errors import UsageError
from canaryd.panel import freeze, lint, lock_path, parse, read, system_path
from canaryd.records import JUDGE_GRADER, Arm, Item, JsonValue
from canaryd.runner.registering import check_registration, confirmed_information
from canaryd.stats.calibration import Design, ItemScores, Regression, Screened, design, regression, screened
from canaryd.stats.estimate import figure
from canaryd.store import studies
from canaryd.store.studies import Stage
from canaryd.studies.collect import FIRST_REPLICATE, Collected, Progress, Wanted, collect
from canaryd.studies.laboratory import Laboratory
from canaryd.wording import counted


@dataclass(frozen=True, slots=True)
class Calibration:
    """What the store holds of a calibration: both stages by item, and what the screen says of each item."""

    lab: Laboratory
    arm: Arm
    screen: Mapping[str, ItemScores]
    confirm: Mapping[str, ItemScores]
    said: Mapping[str, Screened]

    @property
    def kept(self) -> tuple[Item, ...]:
        """The items that the screen keeps, in the pool's order; sentinels and judged items are not screened."""
        return tuple(item for item in self.lab.panel.measured if self.said[item.item_id] == "kept")

    def design(self, *, per_day: int, day_correlation: float) -> Design | None:
        """Return what the confirmed items see; None while none is confirmed."""
        confirmed = [self.confirm[item.item_id] for item in self.kept]
        return design(confirmed, rule=self.lab.prereg.rule, per_day=per_day, day_correlation=day_correlation)

    def to_json(self) -> dict[str, JsonValue]:
        """Return the whole report as JSON."""
        items, params = self.lab.panel.measured, self.lab.prereg.calibration
        return {
            "schema_version": 1,
            "series": self.lab.series.name,
            "arm": self.arm.name,
            "pool": {"path": self.lab.panel.path, "digest": self.lab.panel.digest, "items": len(items)},
            "rule": {
                "screen_samples": params.screen_samples,
                "keep_min": params.keep_min,
                "keep_max": params.keep_max,
                "confirm_samples": params.confirm_samples,
            },
            "screened": dict(sorted(Counter(self.said.values()).items())),
            "missing": {
                "screen": sum(each.open for each in self.screen.values()),
                "confirm": sum(each.open for each in self.confirm.values()),
            },
            "families": self._families(items),
            "regression": [row.to_json() for row in self._regression_by_family()],
            "by_screen_score": [row.to_json() for row in self._regression_by_score()],
            "items": [self._item(item) for item in items],
        }

    def _families(self, items: Sequence[Item]) -> list[JsonValue]:
        counts: dict[str, Counter[str]] = {}
        for item in items:
            counts.setdefault(item.family or "none", Counter())[self.said[item.item_id]] += 1
        return [{"family": family, "items": sum(n.values()), **dict(n)} for family, n in sorted(counts.items())]

    def _regression_by_family(self) -> tuple[Regression, ...]:
        kept = self.kept
        by_family = regression(self.screen, self.confirm, groups={i.item_id: i.family or "none" for i in kept})
        return (*by_family, *regression(self.screen, self.confirm, groups={i.item_id: "all" for i in kept}))

    def _regression_by_score(self) -> tuple[Regression, ...]:
        groups = {
            item.item_id: f"{sum(self.screen[item.item_id].scores):g} of {self.lab.prereg.calibration.screen_samples}"
            for item in self.kept
        }
        return regression(self.screen, self.confirm, groups=groups)

    def _item(self, item: Item) -> JsonValue:
        before, after = self.screen[item.item_id], self.confirm.get(item.item_id, ItemScores())
        return {
            "item_id": item.item_id,
            "family": item.family,
            "said": self.said[item.item_id],
            "screen": figure(before.mean),
            "screen_samples": len(before.scores),
            "confirm": figure(after.mean),
            "confirm_samples": len(after.scores),
            "information": figure(after.information),
        }


def screen_pool(lab: Laboratory, arm: Arm, *, on_landed: Progress = lambda *_: None) -> Collected:
    """Ask what the screen of a pool still misses; see `collect` for what is raised."""
    wanted = Wanted("screen", (arm,), lab.panel.measured, lab.prereg.calibration.screen_samples)
    return collect(lab, wanted, on_landed=on_landed)


def confirm_kept(lab: Laboratory, arm: Arm, *, on_landed: Progress = lambda *_: None) -> Collected:
    """Ask what the confirmation of the kept items still misses; see `collect` for what is raised.

    Raises:
        UsageError: the screen is not whole, or keeps nothing.
    """
    kept = require_screened(calibration_of(lab, arm)).kept
    wanted = Wanted("confirm", (arm,), kept, lab.prereg.calibration.confirm_samples)
    return collect(lab, wanted, on_landed=on_landed)


def require_screened(found: Calibration) -> Calibration:
    """Return a calibration whose screen is whole and keeps something.

    Raises:
        UsageError: samples of the screen are missing, or nothing is kept.
    """
    missing = sum(each.open for each in found.screen.values())
    if missing:
        raise UsageError(
            f"{found.lab.panel.path}: {counted(missing, 'sample')} of its screen missing; "
            "run `canaryd calibrate screen` first"
        )
    if not found.kept:
        raise UsageError(
            f"{found.lab.panel.path}: the screen keeps none of {counted(len(found.said), 'item')}; screen a pool that "
            "is sometimes answered rightly"
        )
    return found


def calibration_of(lab: Laboratory, arm: Arm) -> Calibration:
    """Return what the store holds of the calibration of a pool on an arm."""
    params = lab.prereg.calibration
    screen = _scores(lab, arm, stage="screen", samples=params.screen_samples)
    confirm = _scores(lab, arm, stage="confirm", samples=params.confirm_samples)
    said = {item_id: screened(scores, params) for item_id, scores in screen.items()}
    return Calibration(
        lab=lab,
        arm=arm,
        screen=screen,
        confirm={item_id: confirm[item_id] for item_id, what in said.items() if what == "kept"},
        said=said,
    )


def _scores(lab: Laboratory, arm: Arm, *, stage: Stage, samples: int) -> dict[str, ItemScores]:
    """Return what a stage holds of every item; samples beyond the registered number do not count."""
    with lab.store.read() as connection:
        study_id = studies.study_id(connection, lab.key(arm, stage))
        stored = () if study_id is None else studies.samples(connection, study_id)
    last = FIRST_REPLICATE[stage] + samples
    by_item: dict[str, list[studies.StudySample]] = {item.item_id: [] for item in lab.panel.measured}
    for sample in stored:
        if sample.replicate < last:
            by_item[sample.item_id].append(sample)
    return {
        item_id: ItemScores(
            scores=tuple(sample.score for sample in of_item if sample.score is not None),
            refused=sum(sample.score is None and sample.is_final for sample in of_item),
            open=samples - sum(sample.is_final for sample in of_item),
        )
        for item_id, of_item in by_item.items()
    }


def write_panel(found: Calibration, out: Path, *, per_day: int) -> tuple[str, ...]:
    """Write the kept items, and what is not screened, as a frozen panel; return what `panel lint` says of it.

    Raises:
        UsageError: a file is there already, or the confirmation is not whole; nothing was written.
        ConfigError: no change could ever be declared on it with the registration as it is; nothing was written.
    """
    missing = sum(each.open for each in require_screened(found).confirm.values())
    if missing:
        raise UsageError(
            f"{found.lab.panel.path}: {counted(missing, 'sample')} of its confirmation missing; "
            "run `canaryd calibrate confirm`"
        )
    files = [out, Path(system_path(str(out))), Path(lock_path(str(out)))]
    if existing := next((file for file in files if file.exists()), None):
        raise UsageError(f"{existing}: exists already; choose another path, nothing was written")
    pool, system = read(found.lab.panel.path)
    content = _chosen_lines(pool, {item.item_id for item in found.kept}, name=out.stem, per_day=per_day)
    chosen = parse(content, system, graders=graders, path=str(out))
    lab = found.lab
    # A panel on which nothing could ever be declared is refused here, where the pool is at hand, not at registration.
    check_registration(lab.series, chosen, information=confirmed_information(lab.store, lab.series))
    lock = freeze(chosen)
    out.parent.mkdir(parents=True, exist_ok=True)
    for file, written in zip(files, (content, system, lock), strict=True):
        file.write_bytes(written)
    return tuple(lint(content, system, graders=graders, path=str(out)))


def _chosen_lines(pool: bytes, kept: set[str], *, name: str, per_day: int) -> bytes:
    """Return the pool's lines of the kept items, its sentinels and judged items, under a header with the new name."""
    header, *lines = pool.removesuffix(b"\n").split(b"\n")
    rows = [json.loads(header) | {"name": name}]
    for line in lines:
        row = json.loads(line)
        if row.get("sentinel", False) or row["grader"]["type"] == JUDGE_GRADER:
            rows.append(row)
        elif row["id"] in kept:
            rows.append(row | ({"replicates": per_day} if per_day > 1 else {}))
    return "".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows).encode()
