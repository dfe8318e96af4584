"""The embedded mind: no model, a contextual bandit over templates of tool calls that learns from every experience."""

from __future__ import annotations

import random
import shlex
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from conch.actions import render
from conch.config import ExplorationBonusSettings
from conch.curiosity import exploration_bonus
from conch.log import get_logger
from conch.minds.embedded.bandit import Sparse
from conch.minds.embedded.credit import DISCOUNT, STEPS, known_rewards, mean_after, task_return
from conch.minds.embedded.digest import digest
from conch.minds.embedded.features import (
    EVERYTHING,
    GROUPS,
    CallChoice,
    LastWork,
    TemplateRecord,
    aims,
    at_hand,
    context,
    features,
)
from conch.minds.embedded.memory import CALLS, DECISIONS, STAGED, BanditMemory, PendingDecision, load, save, trim
from conch.minds.embedded.templates import TEMPLATES, TemplateChoice, TemplateSlots, fill_slots, fill_templates
from conch.minds.frozen.choices import ChoiceLog, DrawnChoice
from conch.minds.frozen.parameters import FrozenParameters, FrozenShelf
from conch.minds.own_goals.propose import proposals
from conch.minds.protocol import Completion, Prompt, RecentOutcome, Situation
from conch_schemas import Action, Decoding, ExperienceRecorded, Usage

RECENCY = 0.3
"""Weight of the last result in a template's recent success."""
SAVE_EVERY = 25
"""Experiences between two saves of the memory: the most that a kill can cost."""
COVERAGE = 0.5
"""Least coverage of an experience to learn from; one below is waited for."""

WAITING = 6
"""Most decisions of one template that may await their reward at once, where others can be chosen."""
ALL = ("--all", "-A", ".")
"""Arguments of a `git add` that stage everything."""
REST = "DO_NOTHING"
"""The group of calls that work on nothing."""
HEARD_WITHIN = 100
"""Cycles after which a reward no longer counts as awaited; it is still learnt when it comes."""

log = get_logger(__name__)


class ReflexMind:
    """A bandit mind: it repeats calls that were rewarded, and what led to them. It does not understand what it reads or
    writes, and says so.

    What it learnt is stored in the file `memory`, written every SAVE_EVERY experiences and on `close`. The random draws
    of a cycle depend on `seed` and the cycle's number alone. `explore="random"` chooses at random among the same
    templates and learns nothing: the baseline that learning is measured against. `writes`: whether it is offered
    templates that may change the workspace; `commits`: whether it is offered a commit, asked once, before the first
    decision. `bonus`: of tools by their uses. `epsilon`: share of decisions, 0..1, that are drawn evenly from all
    candidates, so that every candidate has a known probability above 0. `discount`: of the rewards of later steps of a
    task, 0..1 (`conch.minds.embedded.credit`); 0: it learns the reward of each act alone.
    """

    kind, learns = "reflex", True

    def __init__(
        self,
        memory: Path,
        *,
        seed: int = 0,
        explore: Literal["ucb", "random"] = "ucb",
        writes: bool = True,
        commits: Callable[[], bool] = lambda: True,
        bonus: ExplorationBonusSettings = ExplorationBonusSettings(),  # noqa: B008 - frozen
        epsilon: float = 0.0,
        discount: float = DISCOUNT,
    ) -> None:
        self._path, self._writes, self._commits = memory, writes, cache(commits)
        self._seed, self._explores, self._discount = seed, bonus, discount
        self._explore, self._epsilon = explore, epsilon
        self._model = "reflex-linucb-2" if explore == "ucb" else "reflex-random-2"
        self._memory = load(memory)
        self._unsaved = 0
        self._last: str | None = None
        """The goal that the last decision was made for."""
        self._knows_last = not self._memory.decisions
        """Whether `_last` is that of the stored decisions."""
        self.epsilon = epsilon
        self.drawn: ChoiceLog | None = None
        """The last decisions with their candidates; None: they are not kept."""
        self._proposed: dict[int, None] = {}
        """Goals that were proposed, so that one that was refused is not tried again."""

    @property
    def model(self) -> str:
        """The model's name: it is a bandit."""
        return self._model

    async def complete(self, prompt: Prompt) -> Completion:
        """A thought with verifiable claims, a filled template, or a review of the best and worst paid; about 1 ms."""
        started = time.perf_counter()
        self._notice(prompt.situation)
        text, propensity = self._text(prompt)
        ms = (time.perf_counter() - started) * 1000
        adapter = self._memory.generation or None
        decoding = Decoding(engine=self.kind, model=self._model, adapter=adapter, propensity=propensity)
        return Completion(text, "stop", Usage(), self._model, ms, decoding=decoding, cost=0.0)

    def learn(self, experience: ExperienceRecorded) -> None:
        """Correct the estimated value of that cycle's decision, and of those that led to it, however late.

        An experience of another mind's decision, or one with too little coverage, changes nothing.
        """
        cycle = experience.cycle or 0
        decision = self._memory.decisions.get(cycle)
        if decision is None or decision.reply != digest(experience.raw):
            return
        if experience.revision > decision.revision and experience.coverage >= COVERAGE:
            if self.drawn is not None:
                self.drawn.earned(cycle, experience.total, experience.revision)
            self._correct(cycle, decision, experience)
            self._unsaved += 1
            if self._unsaved >= SAVE_EVERY:
                self._save()

    def _correct(self, cycle: int, decision: PendingDecision, experience: ExperienceRecorded) -> None:
        memory, total = self._memory, experience.total
        is_first = decision.revision == 0
        if is_first:
            memory.mean = mean_after(memory.mean, total)
            memory.tries[decision.template] += (1, total)
            memory.lately[decision.template] = _lately(memory.lately.get(decision.template), experience)
        else:
            memory.tries[decision.template, 1] += total - decision.reward
        decision.reward, decision.revision = total, experience.revision
        steps = self._steps(cycle, decision)
        for place, step in enumerate(steps):
            if step.revision:
                self._credit(step, steps[place : place + STEPS], is_first=is_first and step is decision)

    def _steps(self, cycle: int, decision: PendingDecision) -> list[PendingDecision]:
        """The decisions for the same goal, in order: those whose credit the decision counts in, itself and those that
        count in its own."""
        if not decision.goal or not self._discount:
            return [decision]
        task = [(at, step) for at, step in sorted(self._memory.decisions.items()) if step.goal == decision.goal]
        place = next(place for place, (at, _) in enumerate(task) if at == cycle)
        return [step for _, step in task[max(0, place - STEPS + 1) : place + STEPS]]

    def _credit(self, step: PendingDecision, steps: list[PendingDecision], *, is_first: bool) -> None:
        rewards = known_rewards(step.reward if step.revision else None for step in steps)
        credit = task_return(rewards, self._memory.mean or 0.0, self._discount)
        if is_first:
            self._memory.bandit.learn(step.x, credit, step.chosen_at)
        else:
            self._memory.bandit.correct(step.x, credit - step.credit, step.chosen_at)
        step.credit = credit

    @property
    def generation(self) -> str:
        """Digest of the frozen parameters that it goes on from; empty: it has learnt from the beginning."""
        return self._memory.generation

    def freeze(self, shelf: FrozenShelf) -> FrozenParameters:
        """Its parameters of now, in a file of the shelf. Raises OSError."""
        return shelf.put(self._memory)

    def go_on_from(self, frozen: FrozenParameters, *, restore: bool) -> None:
        """Name the frozen parameters as those that it goes on from. `restore`: and take them as its own."""
        if restore:
            frozen.restore(self._memory)
        self._memory.generation = frozen.digest
        self._save()

    def begin_again(self) -> None:
        """Forget what it has learnt of rewards; calls stay."""
        self._memory.begin_again()
        self._save()

    async def close(self) -> None:
        """Save what was learnt."""
        if self._unsaved:
            self._save()

    def _save(self) -> None:
        try:
            save(self._memory, self._path)
        except OSError as error:
            log.warning("reflex.memory_not_saved", file=str(self._path), error=str(error))
        self._unsaved = 0

    def _notice(self, situation: Situation) -> None:
        """Follow the outcomes of the last acts."""
        memory = self._memory
        if not self._knows_last:
            self._knows_last, self._last = True, _goal_of_last(memory, situation)
        for recent in situation.recent:
            if recent.cycle > memory.noticed:
                memory.noticed = recent.cycle
                if recent.status == "success":
                    self._follow(recent)
                else:
                    self._last = None

    def _follow(self, recent: RecentOutcome) -> None:
        """Track what is staged and not committed."""
        staged, skill = self._memory.staged, recent.action.skill
        if skill == "git.commit":
            staged.clear()
        elif skill == "git.add":
            staged |= dict.fromkeys(EVERYTHING if path in ALL else digest(path) for path in _paths(recent))
            trim(staged, STAGED)

    def _text(self, prompt: Prompt) -> tuple[str, float | None]:
        """The reply, and the probability with which a decision is chosen."""
        situation = prompt.situation
        if prompt.purpose == "reflect":
            return _review(self._memory.tries), None
        if prompt.purpose == "decide" and (proposal := self._proposal(situation)) is not None:
            return render(proposal), 1.0
        # Thought and decision of one cycle use the same draws, so the thought is about what may be done.
        draw = random.Random(f"{self._seed}/{situation.cycle}")  # noqa: S311 - no secret
        slots = fill_slots(situation, draw, self._last)
        if prompt.purpose == "think":
            return _thought(situation, slots, draw), None
        commits = self._writes and self._commits()
        choices = fill_templates(slots, at_hand(situation.tools), writes=self._writes, commits=commits)
        if self._explore == "random":
            chosen = draw.choice(choices).call
            return render(chosen.action()), sum(choice.call == chosen for choice in choices) / len(choices)
        return self._choose(situation, choices, draw)

    def _proposal(self, situation: Situation) -> Action | None:
        """A goal to propose, which no estimate decides on; none where the workspace is not to be changed."""
        for action in proposals(situation) if self._writes else ():
            mark = digest(repr(action.args))
            if mark not in self._proposed:
                self._proposed[mark] = None
                trim(self._proposed, CALLS)
                return action
        return None

    def _choose(self, situation: Situation, made: list[TemplateChoice], draw: random.Random) -> tuple[str, float]:
        """The reply and its propensity.

        The policy draws evenly from all candidates with probability epsilon, else evenly from the preferred ones. The
        propensity is exact for the candidates at hand: the drawing of their slots is not part of it. Candidates with
        the same call are one reply, and their probabilities add up.
        """
        memory = self._memory
        marks = [digest(repr(choice.call)) for choice in made]
        choices = [
            CallChoice(choice.template, choice.call.kind, mark in memory.calls, aim)
            for choice, mark, aim in zip(
                made, marks, aims(situation, made, LastWork(memory.staged, self._last)), strict=True
            )
        ]
        rows = features(context(situation), choices, memory.lately)
        preferred = _untried(memory, choices) or self._promising(situation.cycle, choices, rows)
        floor = random.Random(f"{self._seed}/{situation.cycle}/floor")  # noqa: S311 - no secret
        best = floor.randrange(len(made)) if floor.random() < self._epsilon else draw.choice(preferred)
        alike = [place for place, mark in enumerate(marks) if mark == marks[best]]
        liked = sum(place in preferred for place in alike) / len(preferred)
        propensity = self._epsilon * len(alike) / len(made) + (1.0 - self._epsilon) * liked
        if self.drawn is not None:
            self.drawn.add(DrawnChoice.of(situation.cycle, rows, self._bonus(choices), alike, min(propensity, 1.0)))
        memory.uses[GROUPS.index(choices[best].group)] += 1
        return self._remember(situation.cycle, made[best], marks[best], Sparse.of(rows[best])), min(propensity, 1.0)

    def _promising(self, cycle: int, choices: list[CallChoice], rows: NDArray[np.float64]) -> list[int]:
        """The choices with the highest upper confidence bound; several where they are equal."""
        scores = (
            self._memory.bandit.scores(rows)
            + self._bonus(choices)
            - _impatience(self._memory.decisions, cycle, choices)
        )
        return [int(place) for place in np.flatnonzero(scores >= scores.max() - 1e-9)]

    def _bonus(self, choices: list[CallChoice]) -> NDArray[np.float64]:
        """The exploration bonus of each choice's tool, by its uses; nothing for a rest. The bandit's own bound tells
        templates apart, this one whole tools."""
        bonuses = {
            group: exploration_bonus(int(uses), group != REST, self._explores)
            for group, uses in zip(GROUPS, self._memory.uses, strict=True)
        }
        return np.array([bonuses[choice.group] for choice in choices])

    def _remember(self, cycle: int, chosen: TemplateChoice, mark: int, x: Sparse) -> str:
        """Keep the decision, whose reply is returned."""
        memory, text = self._memory, render(chosen.call.action())
        memory.calls.pop(mark, None)
        memory.calls[mark] = None
        trim(memory.calls, CALLS)
        memory.bandit.choose(x)
        self._last = None if chosen.goal is None else chosen.goal.id
        goal = 0 if self._last is None else digest(self._last)
        memory.decisions[cycle] = PendingDecision(chosen.template, digest(text), x, memory.bandit.choices, goal)
        trim(memory.decisions, DECISIONS)
        return text


def _untried(memory: BanditMemory, choices: list[CallChoice]) -> list[int]:
    """The choices never tried: each is tried once before any is preferred, calls of tools before a rest."""
    tried = {decision.template for decision in memory.decisions.values()}
    tried |= set(np.flatnonzero(memory.tries[:, 0]).tolist())
    untried = [place for place, choice in enumerate(choices) if choice.template not in tried]
    return [place for place in untried if choices[place].group != REST] or untried


def _goal_of_last(memory: BanditMemory, situation: Situation) -> str | None:
    """The open goal that the last stored decision was made for, where that act succeeded: as a process knew it that was
    not started anew."""
    cycle = max(memory.decisions)
    if not situation.recent or (situation.recent[-1].cycle, situation.recent[-1].status) != (cycle, "success"):
        return None
    return next((goal.id for goal in situation.goals if digest(goal.id) == memory.decisions[cycle].goal), None)


def _impatience(decisions: Mapping[int, PendingDecision], cycle: int, choices: list[CallChoice]) -> NDArray[np.float64]:
    """A penalty on templates with too many decisions that await a reward: late rewards lead to variation."""
    waiting = Counter(
        decision.template
        for made, decision in decisions.items()
        if decision.revision == 0 and made > cycle - HEARD_WITHIN
    )
    return np.array([float(waiting[choice.template] >= WAITING) for choice in choices])


def _review(tries: NDArray[np.float64]) -> str:
    """What paid best and worst, of `BanditMemory.tries`."""
    tried = np.flatnonzero(tries[:, 0])
    if not tried.size:
        return "I have learnt nothing yet: no act of mine has been scored."
    means = tries[tried, 1] / tries[tried, 0]
    best, worst = int(tried[means.argmax()]), int(tried[means.argmin()])
    return (
        f"I have tried {tried.size} of {len(TEMPLATES)} things in {int(tries[:, 0].sum())} scored acts. "
        f"Best paid: {_mean_paid(tries, best)}. Worst paid: {_mean_paid(tries, worst)}."
    )


def _mean_paid(tries: NDArray[np.float64], template: int) -> str:
    count, total = tries[template]
    return f"“{TEMPLATES[template].name}”, {total / count:+.2f} on average over {int(count)}"


def _paths(added: RecentOutcome) -> list[str]:
    """The arguments of a `git add`."""
    try:
        return shlex.split(str(added.action.args.get("args", "")))
    except ValueError:
        return []


def _thought(situation: Situation, slots: TemplateSlots, draw: random.Random) -> str:
    """A thought with verifiable claims: a file that is there or may be, a tool, a goal."""
    said = [f"{situation.need.capitalize()} presses most."]
    goal = draw.choice(slots.goals) if slots.goals else None
    if goal is not None and goal.target is not None and not goal.begun:
        said.append(f"There may be a file {goal.target}.")
    elif goal is not None and goal.named is not None:
        said.append(f"There is a file {goal.named}.")
    elif situation.files:
        said.append(f"There is a file {slots.file}.")
    if situation.tools:
        said.append(f"I could use the tool {draw.choice(situation.tools)}.")
    if situation.message is not None:
        said.append("Somebody waits for an answer.")
    elif goal is not None:
        said.append(f"I have the goal “{goal.statement[:150]}”.")
    return " ".join(said)


def _lately(before: TemplateRecord | None, experience: ExperienceRecorded) -> TemplateRecord:
    discovered = any(score.component == "exploration" and (score.value or 0.0) > 0.0 for score in experience.scores)
    success = float(experience.outcome.status in ("success", "none"))
    before = before or TemplateRecord(0.5, 0.5)
    return TemplateRecord(
        success=before.success + RECENCY * (success - before.success),
        discovery=before.discovery + RECENCY * (discovered - before.discovery),
    )
