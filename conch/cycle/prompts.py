"""Builds the prompts for a mind as text. Pure.

Every section of a prompt begins with a line of this module's own. A text of the agent, a tool, a file, a sensor or a
person follows `- ` on one line, or has `> ` before each of its lines.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from conch.cycle.grounding.sensors import in_words
from conch.minds import Prompt, Purpose, Situation
from conch.values import Values
from conch_schemas import PromptMessage

SHOWN_FILES = 60
SHOWN_OUTPUT = 600
"""Most characters of a recent output in a prompt."""


def system_prompt(agent: str, tools: str, values: Values) -> str:
    """The agent's name, its values and the format of its replies; `tools` is the registry's own description. Part of
    the policy."""
    return (
        f"You are {agent}, an agent that works on its own in a workspace directory, cycle after cycle. "
        "You have needs, goals and tools. You are rewarded for replies that keep to the grammar, for tools that "
        "succeed, for needs that improve, for goals reached and for finding out what is new.\n\n"
        f"{_stands_for(values)}"
        "When you are asked to decide, answer with exactly one action and nothing else, in one of these forms:\n"
        'TOOL: name(arg1="value1", arg2="value2")\n'
        "DO_NOTHING: reason for inaction\n"
        "REFLECT: topic to think about\n\n"
        f"The tools:\n{tools}"
    )


def _stands_for(values: Values) -> str:
    held = "".join(f"- {name}: {meaning}\n" for name, meaning in values.values.items())
    never = "".join(f"- {one.why}\n" for one in values.guardrails)
    return (f"What you stand for:\n{held}\n" if held else "") + (
        f"What is never done (a decision against it is blocked):\n{never}\n" if never else ""
    )


def thinking(system: str, situation: Situation, max_tokens: int) -> Prompt:
    """The question for a thought."""
    ask = (
        f"Your most pressing need is {situation.need}. In one to three sentences: what do you want to do next and why? "
        "Name files, tools and notes as they are."
    )
    return _prompt("think", system, situation, _state(situation) + "\n\n" + ask, max_tokens)


def deciding(system: str, situation: Situation, max_tokens: int) -> Prompt:
    """The question for an action."""
    parts = [_state(situation), f"Your thought:\n{_quoted(situation.thought)}"]
    if situation.claims:
        checked = _listed(f"{claim.verdict}: {claim.claim} ({claim.evidence})" for claim in situation.claims)
        parts.append(f"What checking it found:\n{checked}")
    if situation.memory:
        parts.append(f"What you remember:\n{_listed(situation.memory)}")
    parts.append("Decide. Answer with one action in the grammar, nothing else.")
    return _prompt("decide", system, situation, "\n\n".join(parts), max_tokens)


def reflecting(system: str, situation: Situation, max_tokens: int) -> Prompt:
    """The question for a reflection."""
    ask = "Look back on the recent actions. In one to three sentences: what worked, what did not, what to do otherwise?"
    return _prompt("reflect", system, situation, _state(situation) + "\n\n" + ask, max_tokens)


def _prompt(purpose: Purpose, system: str, situation: Situation, text: str, max_tokens: int) -> Prompt:
    message = PromptMessage(role="user", content=text)
    return Prompt(purpose, system, (message,), situation, max_tokens)


def _plain(name: str) -> str:
    """A file's name, quoted where it has characters that are not shown as they are."""
    return name if name.isprintable() else json.dumps(name)


def _listed(texts: Iterable[str]) -> str:
    """Each text on one line, for all of Unicode's line ends; each run of white space becomes one blank."""
    return "\n".join(f"- {' '.join(text.split())}" for text in texts)


def _quoted(text: str) -> str:
    """`text` with a mark before each line, for all of Unicode's line ends."""
    return "\n".join(f"> {line}" for line in text.splitlines())


def _state(situation: Situation) -> str:
    needs = "\n".join(
        f"- {need}: satisfied {level:.2f}, pressing {situation.pressing.get(need, 0.0):.2f}"
        for need, level in situation.needs.items()
    )
    parts = [f"Cycle {situation.cycle}.", f"Needs (0 starved, 1 satisfied):\n{needs}"]
    if situation.message is not None:
        parts.append(f"A person says (answer with the tool reply):\n{_quoted(situation.message)}")
    if situation.goals:
        parts.append(f"Goals:\n{_listed(goal.statement for goal in situation.goals)}")
    if situation.senses:
        parts.append(f"What sensors say:\n{_listed(map(in_words, situation.senses))}")
    if situation.recent:
        acts = "\n".join(
            f"- cycle {act.cycle}: {' '.join(act.action.skill.split())} -> {act.status}: {act.output[:SHOWN_OUTPUT]!r}"
            for act in situation.recent[-5:]
        )
        parts.append(f"Recent actions:\n{acts}")
    if situation.files:
        shown = "\n".join(f"- {_plain(name)}" for name in situation.files[:SHOWN_FILES])
        parts.append(f"Files in the workspace:\n{shown}")
    return "\n\n".join(parts)
