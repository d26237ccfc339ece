"""Studies on both databases: what is stored is never asked again, and no stage's samples serve another."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from canaryd import graders, prereg, sandbox
from canaryd.config import Budget, Config, Credentials, Price, Retry, Schedule, SeriesConfig
from canaryd.errors import ConfigError, MeasurementRefused, UsageError
from canaryd.generators import generate
from canaryd.panel import load, system_path
from canaryd.providers.base import ProviderError
from canaryd.providers.simulated_answers import answer_pair
from canaryd.records import Arm, Ask, Reply
from canaryd.runner.registering import confirmed_information
from canaryd.stats.study_params import PositiveControl
from canaryd.store import schema_studies as schema
from canaryd.store import studies
from canaryd.store.engine import RowRefused, Store, open_store
from canaryd.store.transfer import export_jsonl, import_jsonl
from canaryd.studies.calibrate import calibration_of, confirm_kept, require_screened, screen_pool, write_panel
from canaryd.studies.collect import Wanted, missing_asks
from canaryd.studies.laboratory import Laboratory
from canaryd.studies.validate import control_arms, run_session, validation_of
from canaryd.testing import FakeClock, ScriptedProvider

ROOT = Path(__file__).parents[2]
NOON = datetime(2027, 3, 1, 12, tzinfo=UTC)
Answer = Callable[[Ask, int], Reply | ProviderError]


@dataclasses.dataclass
class Bench:
    """A laboratory whose arms answer as a function says; `asked` counts the calls of every provider that was built."""

    lab: Laboratory
    answer: Answer
    providers: list[ScriptedProvider] = dataclasses.field(default_factory=list)

    @property
    def asked(self) -> int:
        return sum(len(provider.asked) for provider in self.providers)

    @property
    def asks(self) -> list[Ask]:
        return [ask for provider in self.providers for ask in provider.asked]

    def build(self, _: Arm) -> ScriptedProvider:
        self.providers.append(ScriptedProvider(self.answer))
        return self.providers[-1]


@pytest.fixture
def bench(store: Store, tmp_path: Path) -> Bench:
    path = tmp_path / "pool.jsonl"
    made = generate("a pool", size=12, name="pool", families=("arith", "bases"))
    path.write_bytes(made.items)
    Path(system_path(str(path))).write_bytes(made.system)
    panel = load(str(path), graders=graders)
    series = SeriesConfig(
        name="main",
        panel=path,
        prereg=ROOT / "prereg.example.toml",
        seed=1,
        arms=(Arm("tracked", "tracked", "simulated", "m"), Arm("control", "control", "simulated", "c")),
    )
    config = Config(
        path=tmp_path / "config.toml",
        store_url="",
        schedule=Schedule(),
        retry=Retry(calls=1),
        credentials=Credentials(),
        series=(series,),
    )
    pairs = {item.item_id: answer_pair(item) for item in panel.items}

    def half_right(ask: Ask, _: int) -> Reply:
        right = ask.item_id.endswith("1") or ask.replicate % 2 == 0
        text = pairs[ask.item_id].right if right else pairs[ask.item_id].wrong
        return Reply(
            text, "stop", response_id=f"{ask.arm}-{ask.item_id}-{ask.replicate}-{ask.slot_date}", output_tokens=9
        )

    def build(arm: Arm) -> ScriptedProvider:
        return bench.build(arm)

    lab = Laboratory(
        config=config,
        series=series,
        prereg=prereg.load(series.prereg),
        panel=panel,
        store=store,
        clock=FakeClock(NOON),
        build_provider=build,
        backend=sandbox.default(),
    )
    bench = Bench(lab, half_right)
    return bench


def count(store: Store) -> int:
    with store.read() as connection:
        found: int = connection.scalar(select(func.count()).select_from(schema.study_sample)) or 0
        return found


def test_a_whole_screen_is_not_asked_again(bench: Bench) -> None:
    arm = bench.lab.series.tracked
    first = screen_pool(bench.lab, arm)
    assert (first.landed, first.missing, bench.asked) == (48, 0, 48)
    again = screen_pool(bench.lab, arm)
    assert (again.landed, again.missing, bench.asked) == (0, 0, 48)


def test_a_screen_that_was_cut_off_asks_only_what_is_missing(bench: Bench) -> None:
    whole = bench.answer

    def dies(ask: Ask, times: int) -> Reply | ProviderError:
        if bench.asked > 20:
            raise KeyboardInterrupt
        return whole(ask, times)

    bench.answer = dies
    with pytest.raises(KeyboardInterrupt):
        screen_pool(bench.lab, bench.lab.series.tracked)
    stored = count(bench.lab.store)
    assert 0 < stored <= 20
    bench.answer = whole
    before = bench.asked
    assert screen_pool(bench.lab, bench.lab.series.tracked).missing == 0
    assert bench.asked - before == 48 - stored


def test_a_failure_is_asked_again_and_never_a_zero(bench: Bench) -> None:
    whole, arm = bench.answer, bench.lab.series.tracked
    broken = bench.lab.panel.items[1].item_id

    def fails(ask: Ask, times: int) -> Reply | ProviderError:
        return ProviderError("server_error", "down") if ask.item_id == broken else whole(ask, times)

    bench.answer = fails
    found = screen_pool(bench.lab, arm)
    assert (found.missing, found.failures) == (4, {"server_error": 4})
    scores = calibration_of(bench.lab, arm).screen[broken]
    assert (scores.scores, scores.open) == ((), 4)
    assert calibration_of(bench.lab, arm).said[broken] == "unfinished"
    with pytest.raises(UsageError, match="4 samples of its screen missing"):
        confirm_kept(bench.lab, arm)
    bench.answer = whole
    assert (screen_pool(bench.lab, arm).landed, count(bench.lab.store)) == (4, 52)
    assert len(calibration_of(bench.lab, arm).screen[broken].scores) == 4


def test_what_the_model_refuses_is_final_and_drops_the_item(bench: Bench) -> None:
    whole, arm = bench.answer, bench.lab.series.tracked
    mute = bench.lab.panel.items[0].item_id

    def refuses(ask: Ask, times: int) -> Reply | ProviderError:
        return Reply("no", "refusal") if (ask.item_id, ask.replicate) == (mute, 1001) else whole(ask, times)

    bench.answer = refuses
    assert screen_pool(bench.lab, arm).missing == 0
    assert screen_pool(bench.lab, arm).landed == 0
    assert calibration_of(bench.lab, arm).said[mute] == "unanswered"


def test_samples_of_one_stage_never_serve_another(bench: Bench) -> None:
    lab, arm = bench.lab, bench.lab.series.tracked
    screen_pool(lab, arm)
    kept = calibration_of(lab, arm).kept
    assert 0 < len(kept) < 12
    assert all(scores.open == 8 for scores in calibration_of(lab, arm).confirm.values())
    confirm_kept(lab, arm)
    found = calibration_of(lab, arm)
    assert all(len(scores.scores) == 8 for scores in found.confirm.values())
    assert all(len(scores.scores) == 4 for scores in found.screen.values())
    assert len({(ask.item_id, ask.replicate) for ask in bench.asks}) == len(bench.asks), "every question is a new one"


def test_another_model_or_pool_is_another_study(bench: Bench) -> None:
    lab, arm = bench.lab, bench.lab.series.tracked
    screen_pool(lab, arm)
    assert screen_pool(lab, dataclasses.replace(arm, model="m-2")).landed == 48
    assert screen_pool(lab, dataclasses.replace(arm, params={"max_tokens": 9})).landed == 48
    panel = dataclasses.replace(lab.panel, lock=dataclasses.replace(lab.panel.lock, digest="sha256:other"))
    assert screen_pool(dataclasses.replace(lab, panel=panel), arm).landed == 48


def test_a_reply_that_was_seen_before_is_no_sample(bench: Bench) -> None:
    whole = bench.answer

    def repeats(ask: Ask, times: int) -> Reply | ProviderError:
        reply = whole(ask, times)
        assert isinstance(reply, Reply)
        return dataclasses.replace(reply, response_id="the same")

    bench.answer = repeats
    found = screen_pool(bench.lab, bench.lab.series.tracked)
    assert found.failures == {"replayed": 47}
    assert screen_pool(bench.lab, bench.lab.series.tracked).failures == {"replayed": 47}


def test_a_refused_request_ends_after_one_call(bench: Bench) -> None:
    bench.answer = lambda *_: ProviderError("auth", "no such key")
    with pytest.raises(MeasurementRefused, match=r"arm 'tracked' was refused after one call \(auth: no such key\)"):
        screen_pool(bench.lab, bench.lab.series.tracked)
    assert bench.asked == 1


def with_budget(lab: Laboratory, budget: Budget, **changes: Any) -> Laboratory:
    config = dataclasses.replace(lab.config, **changes)
    return dataclasses.replace(lab, config=config, series=dataclasses.replace(lab.series, budget=budget))


def test_the_budget_of_a_day_is_not_exceeded_and_the_next_day_goes_on(bench: Bench) -> None:
    clock = FakeClock(NOON)
    lab = dataclasses.replace(with_budget(bench.lab, Budget(calls_per_day=20)), clock=clock)
    first = screen_pool(lab, lab.series.tracked)
    assert (first.landed, first.missing) == (20, 28)
    assert first.stopped == "calls_per_day is 20, 0 are used up and 21 more are needed"
    again = screen_pool(lab, lab.series.tracked)
    assert (again.landed, bench.asked) == (0, 20)
    for landed in (20, 8):
        clock.moment += timedelta(days=1)
        assert screen_pool(lab, lab.series.tracked).landed == landed
    assert not screen_pool(lab, lab.series.tracked).missing


def test_tokens_and_money_are_foreseen_from_what_was_used(bench: Bench) -> None:
    lab = with_budget(bench.lab, Budget(tokens_per_day=600))
    with pytest.raises(MeasurementRefused, match="what a call of arm 'tracked' takes cannot be foreseen: it sets no"):
        screen_pool(lab, lab.series.tracked)
    assert bench.asked == 0
    arm = dataclasses.replace(lab.series.tracked, params={"max_tokens": 100})
    assert screen_pool(lab, arm).landed == 1, "nothing is known yet: 100 tokens of output and one for each byte sent"
    (ask,) = bench.asks
    assert 300 < 100 + len(ask.system) + len(ask.prompt) < 600
    lab = with_budget(bench.lab, Budget(tokens_per_day=300))
    assert screen_pool(lab, arm).landed == 32, "9 tokens a call: 291 are left"
    with pytest.raises(MeasurementRefused, match="no price of 'm' on 'simulated' is in force"):
        screen_pool(with_budget(bench.lab, Budget(money_per_day=1)), arm)
    price = Price("simulated", "m", NOON.date(), 0.0, 1e6)
    assert screen_pool(with_budget(bench.lab, Budget(money_per_day=297 + 9), prices=(price,)), arm).landed == 1


def test_a_pass_that_reaches_midnight_goes_on_under_the_new_date(bench: Bench) -> None:
    clock, whole = FakeClock(NOON.replace(hour=23, minute=59)), bench.answer

    def takes_ten_seconds(ask: Ask, times: int) -> Reply | ProviderError:
        clock.moment += timedelta(seconds=10)
        return whole(ask, times)

    bench.answer = takes_ten_seconds
    lab = dataclasses.replace(bench.lab, clock=clock)
    assert screen_pool(lab, lab.series.tracked).missing == 0
    assert bench.asked == 48
    assert len({ask.slot_date for ask in bench.asks}) == 2


def test_the_panel_that_is_written_holds_what_was_kept_and_is_frozen(bench: Bench, tmp_path: Path) -> None:
    lab, arm = bench.lab, bench.lab.series.tracked
    screen_pool(lab, arm)
    found, out = calibration_of(lab, arm), tmp_path / "mine.jsonl"
    with pytest.raises(UsageError, match="samples of its confirmation missing"):
        write_panel(found, out, per_day=1)
    confirm_kept(lab, arm)
    found = calibration_of(lab, arm)
    assert confirmed_information(lab.store, lab.series).keys() == {item.item_id for item in found.kept}
    with pytest.raises(ConfigError, match="no change could ever be declared on this panel of 4 items"):
        write_panel(found, out, per_day=2)
    assert not out.exists(), "what could not be registered is not frozen"
    loose = tmp_path / "loose.toml"
    loose.write_text(lab.series.prereg.read_text().replace("min_df = 4 ", "min_df = 2 "))
    lab = dataclasses.replace(lab, series=dataclasses.replace(lab.series, prereg=loose))
    found = calibration_of(lab, arm)
    write_panel(found, out, per_day=2)
    written = load(str(out), graders=graders)
    assert [item.item_id for item in written.items] == [item.item_id for item in found.kept]
    assert {item.replicates for item in written.items} == {2}
    assert (tmp_path / "mine.lock").exists()
    with pytest.raises(UsageError, match="exists already"):
        write_panel(found, out, per_day=1)


def test_a_pool_that_is_always_passed_is_refused(bench: Bench) -> None:
    pairs = {item.item_id: answer_pair(item) for item in bench.lab.panel.items}
    bench.answer = lambda ask, _: Reply(pairs[ask.item_id].right, "stop")
    screen_pool(bench.lab, bench.lab.series.tracked)
    with pytest.raises(UsageError, match="the screen keeps none of 12 items"):
        require_screened(calibration_of(bench.lab, bench.lab.series.tracked))


def test_a_session_asks_every_arm_side_by_side_and_once_a_day(bench: Bench) -> None:
    clock = FakeClock(NOON)
    lab = dataclasses.replace(bench.lab, clock=clock)
    assert [arm.name for arm in control_arms(lab)] == ["less-effort", "swapped"]
    assert run_session(lab).landed == 12 * 4 * 3
    assert run_session(lab).landed == 0
    clock.moment += timedelta(days=1)
    assert run_session(lab).landed == 12 * 4 * 3
    found = validation_of(lab)
    assert [day.isoformat() for day in found.sessions] == ["2027-03-01", "2027-03-02"]
    assert found.passed is False, "all three arms answer alike, so no positive control is seen"
    assert found.days is None
    assert "cannot see" in found.cannot_see


def test_the_arms_of_a_session_are_asked_item_by_item(bench: Bench) -> None:
    lab = bench.lab
    arms = (lab.series.tracked, *control_arms(lab))
    ids = {arm.name: studies.open_study(lab.store, lab.key(arm, "validate"), now=NOON) for arm in arms}
    asks = missing_asks(lab, Wanted("validate", arms, lab.panel.measured, 4), ids=ids)
    groups = [asks[place : place + 3] for place in range(0, len(asks), 3)]
    assert len(groups) == 48
    for group in groups:
        assert {ask.arm for ask in group} == {"tracked", "less-effort", "swapped"}
        assert len({(ask.item_id, ask.replicate) for ask in group}) == 1
    assert len({group[0].arm for group in groups}) == 3, "no arm always goes first"


def test_controls_that_the_project_cannot_ask_are_refused(bench: Bench) -> None:
    def with_control(control: PositiveControl) -> Laboratory:
        validation = dataclasses.replace(bench.lab.prereg.validation, controls=(control,))
        return dataclasses.replace(bench.lab, prereg=dataclasses.replace(bench.lab.prereg, validation=validation))

    for control, said in (
        (PositiveControl("a", arm="nobody"), "names the arm 'nobody', but there are tracked, control"),
        (PositiveControl("control", model="x"), "has the name of an arm; rename the control"),
        (PositiveControl("a"), "asks what the tracked arm asks, so there is nothing to see"),
        (PositiveControl("a", model="m"), "asks what the tracked arm asks, so there is nothing to see"),
    ):
        with pytest.raises(ConfigError, match=said):
            control_arms(with_control(control))
    (changed,) = control_arms(with_control(PositiveControl("a", params={"effort": "low"}, options={"seed": 3})))
    assert (changed.model, changed.params, changed.options) == ("m", {"effort": "low"}, {"seed": 3})


def test_studies_go_with_their_series_when_it_is_exported(bench: Bench, study: Any, tmp_path: Path) -> None:
    lab = dataclasses.replace(bench.lab, series=dataclasses.replace(bench.lab.series, name=study.series))
    study.register(lab.store)
    document = studies.RegistrationDocument(b"# read me", "sha256:d", "c0ffee", NOON)
    studies.keep_document(lab.store, study.series, document=document)
    screen_pool(lab, lab.series.tracked)
    with lab.store.read() as connection:
        lines = list(export_jsonl(connection, study.series, with_texts=False))
    with open_store(f"sqlite:///{tmp_path / 'elsewhere.db'}", create=True) as elsewhere:
        import_jsonl(elsewhere, lines, now=NOON)
        moved = dataclasses.replace(lab, store=elsewhere)
        assert calibration_of(moved, lab.series.tracked).to_json() == calibration_of(lab, lab.series.tracked).to_json()
        with elsewhere.read() as connection:
            assert studies.registration_document(connection, study.series) == document


def test_a_sample_that_breaks_a_rule_is_refused(bench: Bench, study: Any) -> None:
    store, lab = bench.lab.store, bench.lab
    study_id = studies.open_study(store, lab.key(lab.series.tracked, "screen"), now=NOON)
    (run,) = study.claim(store, study.register(store), study.start())
    with pytest.raises(RowRefused):
        studies.append_samples(store, [study.sample(run, "a", 1.5)], study_id=study_id)
    studies.append_samples(store, [study.sample(run, "a", 1.0)], study_id=study_id)
    with store.read() as connection:
        (kept,) = studies.samples(connection, study_id)
    assert (kept.item_id, kept.score, kept.is_final) == ("a", 1.0, True)
