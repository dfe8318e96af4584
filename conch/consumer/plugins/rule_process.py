"""Runs a plug-in rule as a consumer, with the scoring in a process of its own: a rule that blocks, grows or exits harms
only itself.

The consumer `rule-NAME` receives an act and sends it to the rule's process, with the rule's state from the acts before.
The answer becomes a score, and the score a `reward.assigned` that follows from the act. The runtime stores the state of
a stateful rule like that of any fold, one per agent, with its position in the stream. It is sent to the process with
every act, so that the process may die at any time and nothing is lost.
"""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic import BaseModel

from conch.consumer.follow import follow
from conch.consumer.plugins.rule_state import OwnRuleState, RuleWindow, after_act, at_first, carried_by
from conch.consumer.runtime.state import UnreadableStateError
from conch.consumer.spec import ConsumerSpec
from conch.errors import ContractError
from conch.log import get_logger
from conch.processes import (
    PluginProcess,
    RuleAnswer,
    RuleAnswered,
    RuleFailed,
    RuleInput,
    RuleStateUnreadable,
    RuleTask,
    WorkerGoneError,
    decode_answer,
    why_none,
)
from conch.python_child import python_command
from conch.rules import NOT_APPLICABLE, RuleInfo, refusal_of
from conch.text import safe_text
from conch_schemas import ActionTaken, Event, RewardAssigned, Score, encode

log = get_logger(__name__)

START_SECONDS = 20.0
"""Time to import a rule's file: it does not count as the rule's."""
WORDS = 500
"""Characters of an explanation that are kept."""
AFRESH = 5
"""Times the rule's time that it has for an act that it answered before a crash, and did not answer now."""
ANSWERED = ("scored", "not_applicable")
"""Statuses of an act that is in the rule's state."""


def own_words(rule: RuleInfo) -> str:
    """The explanation of a rule's values: the first line of its docstring."""
    return safe_text(rule.doc.strip().partition("\n")[0], one_line=True)[:WORDS]


class RuleWorker:
    """The process of one rule. It is started when first needed, and again after it died."""

    def __init__(self, rule: RuleInfo, *, timeout: float, memory_mib: int) -> None:
        self._rule = self._next = rule
        self._timeout, self._memory_mib = timeout, memory_mib
        self._process: PluginProcess | None = None
        self._lock = asyncio.Lock()

    @property
    def rule(self) -> RuleInfo:
        """The rule by which the next act is scored."""
        return self._next

    def become(self, rule: RuleInfo) -> None:
        """Score with this rule, of the same name, from the next act on; the act in progress is finished first."""
        self._next = rule

    async def score(self, action: ActionTaken) -> Score:
        """The rule's score of this act, the first of its agent for a rule that carries something; see `fold`."""
        return (await self.fold(at_first(self._rule), action))[1]

    async def fold(
        self, before: BaseModel | None, action: ActionTaken, *, afresh: bool = False
    ) -> tuple[BaseModel | None, Score]:
        """(what the rule carries after this act, its score of it), given what it carried, from `at_first` on.

        An error of the rule is a Score, too. An act that is neither scored nor not applicable leaves a state as it was;
        a trajectory takes every act, however it is scored. `afresh`: by a new process, in AFRESH times the time.
        Cancelled, the process is ended. Raises UnreadableStateError where the rule cannot read its state.
        """
        answer: RuleAnswer | None = None
        async with self._lock:
            try:
                ended = self._process is not None and self._process.returncode is not None
                if afresh or ended or self._rule != self._next:
                    await self.close()  # it ended between two acts: this one is not to blame
                self._rule = self._next
                if self._process is None:
                    await self._start()
                async with asyncio.timeout(self._seconds * (AFRESH if afresh else 1)):
                    answer = await self._ask(before, action)
                score = self.judge(answer)
                if isinstance(answer, RuleFailed) and answer.restart:
                    await self.close()
            except TimeoutError:
                await self.close()
                score = self.late()
            except WorkerGoneError as gone:
                await self.close()
                score = self._score("error", why=str(gone))
            except asyncio.CancelledError:
                await self.close()
                raise
        if isinstance(answer, RuleStateUnreadable):
            name, agent = self._rule.consumer, action.agent
            raise UnreadableStateError(name, self._rule.version, agent, safe_text(answer.why))
        after = before
        if isinstance(before, RuleWindow) and self._rule.window is not None:
            after = after_act(before.acts, action, self._rule.window)
        elif score.status in ANSWERED and isinstance(answer, RuleAnswered) and answer.state is not None:
            after = OwnRuleState(text=answer.state)
        return after, score

    @property
    def _seconds(self) -> float:
        return self._rule.timeout or self._timeout

    def judge(self, answer: RuleAnswer) -> Score:
        """The score in an answer of the rule's process; the answer may be anything."""
        if isinstance(answer, RuleFailed):
            return self._score("error", why=answer.error)
        value, why = (answer.value, answer.why) if isinstance(answer, RuleAnswered) else (None, "")
        if value is None:
            return self._score("not_applicable", why=why or NOT_APPLICABLE)
        if (refusal := refusal_of(value, self._rule.low, self._rule.high)) is not None:
            return self._score("error", why=refusal)
        return self._score("scored", float(value), why)

    def _score(self, status: Any, value: float | None = None, why: str = "") -> Score:
        return Score(
            component=self._rule.name,
            value=value,
            range=(self._rule.low, self._rule.high),
            status=status,
            explanation=safe_text(why, one_line=True)[:WORDS] if why else own_words(self._rule),
            scorer=self._rule.name,
            version=self._rule.version,
        )

    def late(self) -> Score:
        """The score of an act for which no answer came in time."""
        return self._score("timeout", why=f"no value within {self._seconds:g} s")

    async def _start(self) -> None:
        if (why := await asyncio.to_thread(why_none)) is not None:
            log.warning("reward.rule_not_alone", rule=self._rule.name, why=why)
        command = python_command("conch.consumer.plugins.rule_worker")
        self._process = await PluginProcess.start(command, "the rule", self._printed)
        one = self._rule
        task = RuleTask(origin=one.origin, name=one.name, text=one.text, memory_mib=self._memory_mib)
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._process.tell(task.encode())
                answer = await self._answer()
        except TimeoutError:
            raise WorkerGoneError(f"its file was still being imported after {START_SECONDS:g} s") from None
        if isinstance(answer, RuleFailed):
            raise WorkerGoneError(answer.error)

    async def _ask(self, before: BaseModel | None, action: ActionTaken) -> RuleAnswer:
        assert self._process is not None
        await self._process.tell(self._question(before, action))
        return await self._answer_to(action)

    def _question(self, before: BaseModel | None, action: ActionTaken) -> bytes:
        """The two lines by which the process is asked for the score of an act."""
        carried = RuleInput()
        if isinstance(before, RuleWindow):
            carried = RuleInput(acts=before.acts[-((self._rule.window or 1) - 1) :])
        elif isinstance(before, OwnRuleState):
            carried = RuleInput(state=before.text)
        return carried.encode() + encode(action) + b"\n"

    async def _answer_to(self, action: ActionTaken) -> RuleAnswer:
        while getattr(answer := await self._answer(), "id", None) != action.id:
            log.warning("reward.rule_spoke_out_of_turn", rule=self._rule.name)
        return answer

    async def _answer(self) -> RuleAnswer:
        assert self._process is not None
        try:
            return decode_answer(await self._process.line())
        except (ContractError, ValueError):
            raise WorkerGoneError("its process wrote something else than a score") from None

    def _printed(self, said: str) -> None:
        log.info("reward.rule_printed", rule=self._rule.name, said=said)

    async def close(self) -> None:
        """End the process and all that it started. A second call does nothing."""
        process, self._process = self._process, None
        if process is not None:
            await process.close()


class NotAsPublishedError(Exception):
    """A rule's answer is on the stream, and the rule no longer gives that answer: its state would lack the act."""


def rule_consumer(
    rule: RuleInfo, *, timeout: float, memory_mib: int, begin: int = 0
) -> tuple[ConsumerSpec, RuleWorker]:
    """The consumer `rule-<name>`, with which a plug-in rule scores every act, and the worker with its process.

    A new rule begins behind `begin`: where it was first given a weight. Earlier acts are scored by a backfill.
    """
    worker = RuleWorker(rule, timeout=timeout, memory_mib=memory_mib)
    name, carried = rule.consumer, carried_by(rule)

    async def handle(action: ActionTaken) -> Event:
        return assigned(action, await worker.score(action))

    async def fold(before: BaseModel, action: ActionTaken) -> tuple[BaseModel | None, Event]:
        after, score = await worker.fold(before, action)
        return after, assigned(action, score)

    async def again(before: BaseModel, action: ActionTaken, published: Event) -> BaseModel | None:
        assert isinstance(published, RewardAssigned)
        if any(score.status not in ANSWERED for score in published.scores):
            return before
        after, score = await worker.fold(before, action, afresh=True)
        if score.status not in ANSWERED:
            raise NotAsPublishedError(
                f"rule {rule.name} answered this act before ({published.id}) and does not now, {score.status}: "
                f"{score.explanation}. Its state lacks the act until the rule answers: conch dlq retry"
            )
        return after

    spec = ConsumerSpec(
        name,
        rule.version,
        (ActionTaken,),
        handle if carried is None else fold,
        state=carried,
        initial=None if carried is None else lambda: carried.model_validate(at_first(rule)),
        emits=(RewardAssigned,),
        scorer=rule.name,
        begin=begin,
        again=again if carried is OwnRuleState else None,
    )
    return spec, worker


def assigned(action: ActionTaken, score: Score) -> RewardAssigned:
    """The event with a rule's score of an act."""
    return follow(
        action,
        RewardAssigned,
        consumer=f"rule-{score.scorer}",
        version=score.version,
        scorer=score.scorer,
        scores=(score,),
    )
