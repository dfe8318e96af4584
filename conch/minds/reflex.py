"""The embedded mind: no model, a contextual bandit over templates of tool calls that learns from every experience."""

from __future__ import annotations

import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from conch.actions import effect_of, render
from conch.config import ExplorationBonusSettings
from conch.curiosity import exploration_bonus
from conch.log import get_logger
from conch.minds.bandit import Sparse
from conch.minds.features import GROUPS, CallChoice, TemplateRecord, at_hand, context, features
from conch.minds.frozen.choices import ChoiceLog, DrawnChoice
from conch.minds.frozen.parameters import FrozenParameters, FrozenShelf
from conch.minds.memory import CALLS, DECISIONS, WORDS, PendingDecision, digest, load, save, trim
from conch.minds.own_goals.propose import proposals
from conch.minds.protocol import Completion, Prompt, RecentOutcome, Situation
from conch.minds.templates import TEMPLATES, WORD, TemplateCall, TemplateSlots, fill_slots
from conch_schemas import Action, Decoding, ExperienceRecorded, Usage

DRAWS = 2
"""Random fillings of each template per decision."""
RECENCY = 0.3
"""Weight of the last result in a template's recent success."""
SAVE_EVERY = 25
"""Experiences between two saves of the memory: the most that a kill can cost."""
COVERAGE = 0.5
"""Least coverage of an experience to learn from; one below is waited for."""

WAITING = 6
"""Most decisions of one template that may await their reward at once, where others can be chosen."""
PAUSES = ("DO_NOTHING", "REFLECT")
"""Groups of calls that work on nothing."""
HEARD_WITHIN = 100
"""Cycles after which a reward no longer counts as awaited; it is still learnt when it comes."""

_WRITING = re.compile(r">|\b(?:tee|mv)\b")
"""In a command of the shell: it writes or moves a file."""

log = get_logger(__name__)


class ReflexMind:
    """A bandit mind: it repeats calls that were rewarded. It does not understand what it reads or writes, and says so.

    What it learnt is stored in the file `memory`, written every SAVE_EVERY experiences and on `close`. The random draws
    of a cycle depend on `seed` and the cycle's number alone. `explore="random"` chooses at random among the same
    templates and learns nothing: the baseline that learning is measured against. `writes`: whether it is offered
    templates that may change the workspace; `commits`: whether it is offered a commit, asked once, before the first
    decision. `bonus`: of tools by their uses. `epsilon`: share of decisions, 0..1, that
    are drawn evenly from all candidates, so that every candidate has a known probability above 0.
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
    ) -> None:
        self._path, self._writes, self._commits = memory, writes, cache(commits)
        self._seed, self._explores = seed, bonus
        self._explore, self._epsilon = explore, epsilon
        self._model = "reflex-linucb-1" if explore == "ucb" else "reflex-random-1"
        self._memory = load(memory)
        self._unsaved = 0
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
        """Correct the estimated value of that cycle's decision, however late.

        An experience of another mind's decision, or one with too little coverage, changes nothing.
        """
        decision = self._memory.decisions.get(experience.cycle or 0)
        if decision is None or decision.reply != digest(experience.raw):
            return
        if experience.revision > decision.revision and experience.coverage >= COVERAGE:
            if self.drawn is not None:
                self.drawn.earned(experience.cycle or 0, experience.total, experience.revision)
            self._correct(decision, experience)
            self._unsaved += 1
            if self._unsaved >= SAVE_EVERY:
                self._save()

    def _correct(self, decision: PendingDecision, experience: ExperienceRecorded) -> None:
        memory, total = self._memory, experience.total
        if decision.revision == 0:
            memory.bandit.learn(decision.x, total, decision.chosen_at)
            memory.tries[decision.template] += (1, total)
            memory.lately[decision.template] = _lately(memory.lately.get(decision.template), experience)
        else:
            change = total - decision.reward
            memory.bandit.correct(decision.x, change, decision.chosen_at)
            memory.tries[decision.template, 1] += change
        decision.reward, decision.revision = total, experience.revision

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
        """Forget what it has learnt of rewards; words and calls stay."""
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
        """Collect words, and the outcomes of the last acts."""
        memory = self._memory
        heard = [situation.need, situation.message or "", *(goal.statement for goal in situation.goals)]
        for recent in situation.recent:
            if recent.cycle > memory.noticed:
                memory.noticed = recent.cycle
                heard.append(recent.output)
                self._follow(recent)
        for text in heard:
            memory.words.update(dict.fromkeys(map(sys.intern, WORD.findall(text))))  # many agents read the same
        trim(memory.words, WORDS)

    def _follow(self, recent: RecentOutcome) -> None:
        """Track what is written and not staged, staged and not committed."""
        if recent.status != "success":
            return
        memory, skill = self._memory, recent.action.skill
        if skill == "git.commit":
            memory.written = memory.staged = False
        elif skill == "git.add":
            memory.staged = True
        elif _writes(recent.action):
            memory.written = True

    def _text(self, prompt: Prompt) -> tuple[str, float | None]:
        """The reply, and the probability with which a decision is chosen."""
        situation = prompt.situation
        if prompt.purpose == "reflect":
            return self._reflection(), None
        if prompt.purpose == "decide" and (proposal := self._proposal(situation)) is not None:
            return render(proposal), 1.0
        # Thought and decision of one cycle use the same draws, so the thought is about what may be done.
        draw = random.Random(f"{self._seed}/{situation.cycle}")  # noqa: S311 - no secret
        words = tuple(self._memory.words) or ("nothing",)
        slots = [fill_slots(situation, words, draw) for _ in range(DRAWS)]
        if prompt.purpose == "think":
            return _thought(situation, slots[0], draw), None
        calls = _calls(situation, slots, writes=self._writes, commits=self._writes and self._commits())
        if self._explore == "random":
            chosen = draw.choice(calls)[1]
            return render(chosen.action()), sum(call == chosen for _, call, _ in calls) / len(calls)
        return self._choose(situation, calls, draw)

    def _proposal(self, situation: Situation) -> Action | None:
        """A goal to propose, which no estimate decides on; none where the workspace is not to be changed."""
        for action in proposals(situation) if self._writes else ():
            mark = digest(repr(action.args))
            if mark not in self._proposed:
                self._proposed[mark] = None
                trim(self._proposed, CALLS)
                return action
        return None

    def _choose(
        self, situation: Situation, calls: list[tuple[int, TemplateCall, bool]], draw: random.Random
    ) -> tuple[str, float]:
        """The reply and its propensity.

        The policy draws evenly from all candidates with probability epsilon, else evenly from the preferred ones. The
        propensity is exact for the candidates at hand: the drawing of their slots is not part of it. Candidates with
        the same call are one reply, and their probabilities add up.
        """
        memory = self._memory
        marks = [digest(repr(call)) for _, call, _ in calls]
        choices = [
            CallChoice(number, call.kind, mark in memory.calls, prose)
            for (number, call, prose), mark in zip(calls, marks, strict=True)
        ]
        about = context(situation, staged=memory.staged, written=memory.written)
        rows = features(about, choices, memory.lately)
        preferred = self._untried(choices) or self._promising(situation.cycle, choices, rows)
        floor = random.Random(f"{self._seed}/{situation.cycle}/floor")  # noqa: S311 - no secret
        best = floor.randrange(len(calls)) if floor.random() < self._epsilon else draw.choice(preferred)
        alike = [place for place, mark in enumerate(marks) if mark == marks[best]]
        liked = sum(place in preferred for place in alike) / len(preferred)
        propensity = self._epsilon * len(alike) / len(calls) + (1.0 - self._epsilon) * liked
        if self.drawn is not None:
            self.drawn.add(DrawnChoice.of(situation.cycle, rows, self._bonus(choices), alike, min(propensity, 1.0)))
        text = render(calls[best][1].action())
        memory.uses[GROUPS.index(choices[best].group)] += 1
        self._remember(situation.cycle, marks[best], choices[best].template, text, Sparse.of(rows[best]))
        return text, min(propensity, 1.0)

    def _untried(self, choices: list[CallChoice]) -> list[int]:
        """The choices never tried: each is tried once before any is preferred, calls of tools before pauses."""
        tried = {decision.template for decision in self._memory.decisions.values()}
        tried |= set(np.flatnonzero(self._memory.tries[:, 0]).tolist())
        untried = [place for place, choice in enumerate(choices) if choice.template not in tried]
        return [place for place in untried if choices[place].group not in PAUSES] or untried

    def _promising(self, cycle: int, choices: list[CallChoice], rows: NDArray[np.float64]) -> list[int]:
        """The choices with the highest upper confidence bound; several where they are equal."""
        scores = self._memory.bandit.scores(rows) + self._bonus(choices) - self._impatience(cycle, choices)
        return [int(place) for place in np.flatnonzero(scores >= scores.max() - 1e-9)]

    def _bonus(self, choices: list[CallChoice]) -> NDArray[np.float64]:
        """The exploration bonus of each choice's tool, by its uses; nothing for pauses. The bandit's own bound tells
        templates apart, this one whole tools."""
        bonuses = {
            group: exploration_bonus(int(uses), group not in PAUSES, self._explores)
            for group, uses in zip(GROUPS, self._memory.uses, strict=True)
        }
        return np.array([bonuses[choice.group] for choice in choices])

    def _impatience(self, cycle: int, choices: list[CallChoice]) -> NDArray[np.float64]:
        """A penalty on templates with too many decisions that await a reward: late rewards lead to variation."""
        waiting = Counter(
            decision.template
            for made, decision in self._memory.decisions.items()
            if decision.revision == 0 and made > cycle - HEARD_WITHIN
        )
        return np.array([float(waiting[choice.template] >= WAITING) for choice in choices])

    def _remember(self, cycle: int, mark: int, template: int, text: str, x: Sparse) -> None:
        memory = self._memory
        memory.calls.pop(mark, None)
        memory.calls[mark] = None
        trim(memory.calls, CALLS)
        memory.bandit.choose(x)
        memory.decisions[cycle] = PendingDecision(template, digest(text), x, memory.bandit.choices)
        trim(memory.decisions, DECISIONS)

    def _reflection(self) -> str:
        tries = self._memory.tries
        tried = np.flatnonzero(tries[:, 0])
        if not tried.size:
            return "I have learnt nothing yet: no act of mine has been scored."
        means = tries[tried, 1] / tries[tried, 0]
        best, worst = int(tried[means.argmax()]), int(tried[means.argmin()])
        return (
            f"I have tried {tried.size} of {len(TEMPLATES)} things in {int(tries[:, 0].sum())} scored acts. "
            f"Best paid: {self._went(best)}. Worst paid: {self._went(worst)}."
        )

    def _went(self, template: int) -> str:
        count, total = self._memory.tries[template]
        return f"“{TEMPLATES[template].name}”, {total / count:+.2f} on average over {int(count)}"


def _calls(
    situation: Situation, slots: list[TemplateSlots], *, writes: bool, commits: bool
) -> list[tuple[int, TemplateCall, bool]]:
    """Every template with slots that can be filled and an available tool: its number, the call, whether it is prose.
    Without `writes` only those that change nothing in the workspace, without `commits` none that commits."""
    groups = at_hand(situation.tools)
    return [
        (number, call, prose)
        for gaps, prose in [(gaps, gaps.prose) for gaps in slots]
        for number, template in enumerate(TEMPLATES)
        if (writes or not template.changes) and (commits or not template.commits)
        if (call := template.make(gaps)) is not None and call.kind in groups
    ]


def _thought(situation: Situation, slots: TemplateSlots, draw: random.Random) -> str:
    """A thought with verifiable claims: a file that exists or may not, a tool, a goal."""
    known = bool(situation.files) and draw.random() < 0.7
    said = [f"{situation.need.capitalize()} presses most."]
    said.append(f"There is a file {slots.file}." if known else f"There may be a file {slots.guess}.")
    if situation.tools:
        said.append(f"I could use the tool {draw.choice(situation.tools)}.")
    if situation.message is not None:
        said.append("Somebody waits for an answer.")
    elif situation.goals:
        said.append(f"I have the goal “{draw.choice(situation.goals).statement[:150]}”.")
    return " ".join([*said, f"I wonder about {slots.word}."])


def _writes(action: Action) -> bool:
    """Whether there may be something new to stage: git's own operations and an empty directory leave nothing."""
    if effect_of(action) != "workspace" or action.tool == "git" or action.skill == "filesystem.mkdir":
        return False
    return action.tool != "shell" or bool(_WRITING.search(str(action.args.get("command"))))


def _lately(before: TemplateRecord | None, experience: ExperienceRecorded) -> TemplateRecord:
    discovered = any(score.component == "exploration" and (score.value or 0.0) > 0.0 for score in experience.scores)
    success = float(experience.outcome.status in ("success", "none"))
    before = before or TemplateRecord(0.5, 0.5)
    return TemplateRecord(
        success=before.success + RECENCY * (success - before.success),
        discovery=before.discovery + RECENCY * (discovered - before.discovery),
    )
