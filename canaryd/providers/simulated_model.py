"""The simulated model itself: abilities, draws, eras and faults (pure; every number comes from the key of a question).

A draw is SHA-256 of (purpose, seed, model or arm, item, date, replicate): the same seed gives the same replies on any
machine and in any order of asking.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from statistics import NormalDist, fmean

from canaryd.graders.judge import SYSTEM
from canaryd.providers.base import ProviderError, standing_of
from canaryd.providers.simulated_answers import AnswerPair
from canaryd.providers.simulated_judge import opinion
from canaryd.records import CONFIG_FAILURES, OUTCOME_FAILURES, TRANSPORT_FAILURES, Ask, Reply, StopKind

#: The faults that can be given a rate; `no_usage` is a good reply without token counts.
FAULTS = TRANSPORT_FAILURES | CONFIG_FAILURES | OUTCOME_FAILURES | {"no_usage"}
_STOPS: Mapping[str, StopKind] = {"truncated": "length", "refusal": "refusal", "content_filtered": "content_filter"}
_ATTEMPT_FAULTS = TRANSPORT_FAILURES | CONFIG_FAILURES
_UNKNOWN_ITEM = AnswerPair(right="<answer>ok</answer>", wrong="<answer>ok</answer>")
_TOKENS_MEDIAN = 120.0
_TOKENS_SD_BETWEEN = 0.6
_TOKENS_SD_WITHIN = 0.2


@dataclass(frozen=True, slots=True)
class Era:
    """How the model behaves from the date `first` on, until the next era.

    `logit_shift` is added to every item's log odds, `token_factor` multiplies output tokens, `resolved_model` is the
    name that the model reports (None: the name it was asked by), and `says` is the label that it gives every answer as
    a judge (None: the right one).
    """

    first: date
    logit_shift: float = 0.0
    token_factor: float = 1.0
    resolved_model: str | None = None
    says: str | None = None


@dataclass(frozen=True, slots=True)
class SimulatedModel:
    """A model that answers panel items rightly or wrongly.

    Abilities (probabilities of the right answer) are keyed by model, draws by arm: two arms of one model agree in
    ability and differ by chance. `answers` maps item ids to texts; an item that is not in it (a pre-flight canary) is
    answered with one fixed text. `faults` maps kinds of `FAULTS` to rates.
    """

    model: str
    arm: str
    seed: int
    answers: Mapping[str, AnswerPair]
    abilities: Mapping[str, float] = field(default_factory=dict)
    eras: Sequence[Era] = ()
    faults: Mapping[str, float] = field(default_factory=dict)

    def ability(self, item_id: str) -> float:
        """Return the probability of the right answer before any shift: the given one, or a draw.

        The draw is Beta(2, 2) for four items of five and Beta(3, 1) else: the second smallest, and the largest, of
        three uniforms. Mean 0.55, mean of p(1 - p) 0.19.
        """
        if item_id in self.abilities:
            return self.abilities[item_id]
        which, *three = uniforms("ability", self.seed, self.model, item_id)
        return sorted(three)[1 if which < 0.8 else 2]

    def era(self, slot_date: date) -> Era:
        """Return the era of a date; before the first one nothing is shifted."""
        begun = [era for era in self.eras if era.first <= slot_date]
        return max(begun, key=lambda era: era.first) if begun else Era(first=slot_date)

    def reply(self, item_id: str, slot_date: date, *, replicate: int = 0, attempt: int = 1) -> Reply:
        """Return the reply to one question.

        Only transport and configuration faults depend on `attempt`, so that a retry may pass and still brings the reply
        that an undisturbed first attempt would have brought.

        Raises:
            ProviderError: a fault was drawn that brings no reply.
        """
        key = (self.seed, self.arm, item_id, slot_date.isoformat(), replicate)
        if fault := drawn_fault(uniforms("attempt", *key, attempt)[0], self.faults, kinds=_ATTEMPT_FAULTS):
            raise ProviderError(fault, "simulated", retry_after_s=0.0 if fault == "rate_limited" else None)
        passed, tokens, faulty, nonce = uniforms("reply", *key)
        fault = drawn_fault(faulty, self.faults, kinds=FAULTS - _ATTEMPT_FAULTS)
        if fault == "malformed":
            raise ProviderError("malformed", "simulated")
        era, pair = self.era(slot_date), self.answers.get(item_id, _UNKNOWN_ITEM)
        text = pair.right if passed < shifted(self.ability(item_id), era.logit_shift) else pair.wrong
        size, length = uniforms("item", self.seed, self.model, item_id)[:2]
        spread = _TOKENS_SD_BETWEEN * NormalDist().inv_cdf(size) + _TOKENS_SD_WITHIN * NormalDist().inv_cdf(tokens)
        counted = fault != "no_usage"
        resolved = era.resolved_model or self.model
        return Reply(
            text="" if fault == "empty" else text,
            stop=_STOPS.get(fault or "", "stop"),
            resolved_model=resolved,
            response_id=f"sim-{int(nonce * 2**53):014x}",
            input_tokens=int(40 + 120 * length) if counted else None,
            output_tokens=max(1, round(_TOKENS_MEDIAN * math.exp(spread) * era.token_factor)) if counted else None,
            standing=standing_of(self.model, resolved),
        )

    def answer(self, ask: Ask, *, attempt: int = 1) -> Reply:
        """Return the reply to an ask: an opinion where it is asked as a judge, see `reply` else."""
        reply = self.reply(ask.item_id, ask.slot_date, replicate=ask.replicate, attempt=attempt)
        if ask.system != SYSTEM or not reply.text:
            return reply
        return dataclasses.replace(reply, text=opinion(ask.prompt, always=self.era(ask.slot_date).says))


def uniforms(*key: str | int) -> tuple[float, float, float, float]:
    """Return four numbers, uniform in the open interval (0, 1) and fixed by the key.

    >>> [round(u, 3) for u in uniforms("doctest", 1)]
    [0.733, 0.986, 0.994, 0.619]
    """
    drawn = hashlib.sha256(json.dumps(key).encode()).digest()
    a, b, c, d = ((int.from_bytes(drawn[n : n + 8], "big") >> 11) + 0.5 for n in (0, 8, 16, 24))
    return a / 2**53, b / 2**53, c / 2**53, d / 2**53


def drawn_fault(uniform: float, rates: Mapping[str, float], *, kinds: frozenset[str]) -> str | None:
    """Return the fault into whose share of [0, 1) the number falls, or None; kinds take their shares by name.

    >>> drawn_fault(0.15, {"timeout": 0.1, "refusal": 0.1}, kinds=frozenset({"refusal", "timeout"}))
    'timeout'
    """
    total = 0.0
    for kind in sorted(kinds & rates.keys()):
        total += rates[kind]
        if uniform < total:
            return kind
    return None


def shifted(ability: float, logit_shift: float) -> float:
    """Return 1 / (1 + exp(-(log(p / (1 - p)) + shift))); 0 and 1 stay.

    >>> round(shifted(0.5, -1.0), 4), shifted(1.0, -1.0)
    (0.2689, 1.0)
    """
    odds = ability * math.exp(logit_shift)
    return odds / (odds + 1.0 - ability)


def shift_for_drop(abilities: Sequence[float], drop: float) -> float:
    """Return the logit shift that lowers the mean ability by `drop` (a fraction; negative raises it), by bisection.

    Raises:
        ValueError: no shift within +-20 does it.

    >>> shift = shift_for_drop([0.5, 0.9], 0.15)
    >>> round((0.5 + 0.9) / 2 - (shifted(0.5, shift) + shifted(0.9, shift)) / 2, 12)
    0.15
    """
    wanted = (fmean(abilities) if abilities else 0.0) - drop
    low, high = -20.0, 20.0
    reachable = abilities and fmean(shifted(p, low) for p in abilities) < wanted < fmean(
        shifted(p, high) for p in abilities
    )
    if not reachable:
        raise ValueError(f"no logit shift lowers the mean of {len(abilities)} abilities by {drop:g}")
    for _ in range(80):
        middle = (low + high) / 2
        if fmean(shifted(p, middle) for p in abilities) < wanted:
            low = middle
        else:
            high = middle
    return (low + high) / 2
