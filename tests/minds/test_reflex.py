"""The reflex mind tries everything, keeps to what pays, and remembers it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conch.actions import Registry, parse
from conch.config import ExplorationBonusSettings
from conch.cycle.ground import ground
from conch.errors import HomeError
from conch.minds import Prompt, RecentOutcome
from conch.minds.embedded.digest import digest
from conch.minds.embedded.features import GROUPS
from conch.minds.embedded.memory import BanditMemory, learnt, load, save
from conch.minds.embedded.templates import TEMPLATES
from conch.minds.reflex import SAVE_EVERY, ReflexMind
from conch.tools import BUILTIN_TOOLS, Notes
from conch_schemas import Action, Cut, ExperienceRecorded, Goal, Outcome, ScoredPart
from conch_schemas.goal import FileCheck

REGISTRY = Registry(tool.spec for tool in BUILTIN_TOOLS)
Asking = Callable[..., Prompt]


def experience(cycle: int, raw: str, total: float, **parts: Any) -> ExperienceRecorded:
    action = parse(raw, REGISTRY)
    status = "none" if action.kind != "TOOL" else "success" if total > 0.3 else "error"
    score = ScoredPart(
        component="exploration", value=0.5, weight=0.1, status="scored", explanation="", scorer="curiosity", version="1"
    )
    plain: dict[str, Any] = {
        "id": f"e{cycle}", "source": "conch/echo/0", "agent": "echo", "cycle": cycle, "seq": cycle, "raw": raw,
        "acted_at": datetime.now(UTC), "action": action, "scores": (score,), "total": total, "breakdown": (),
        "outcome": Outcome(status=status, output=Cut(text="", length=0, sha256="")), "coverage": 1.0,
        "complete": True, "revision": 1, "weights": "w", "model": "m", "ms": {},
    }  # fmt: skip
    return ExperienceRecorded(**{**plain, **parts})


GOAL = Goal(id="g", statement="PLAN.md has what notes/tides.md says.", check=FileCheck(path="PLAN.md"))


def paid(raw: str) -> float:
    """A world in which git pays, everything else does not."""
    return 0.5 if raw.startswith("TOOL: git(") else 0.1


async def live(
    mind: ReflexMind, prompt: Asking, cycles: range, lag: int = 0, pay: Callable[[str], float] = paid
) -> list[str]:
    """Decide and learn, with a goal open; what is paid for a decision comes `lag` cycles later."""
    replies: list[str] = []
    late: list[ExperienceRecorded] = []
    for cycle in cycles:
        reply = await mind.complete(prompt(cycle=cycle, goals=(GOAL,)))
        replies.append(reply.text)
        late.append(experience(cycle, reply.text, pay(reply.text)))
        while len(late) > lag:
            mind.learn(late.pop(0))
    return replies


def share(replies: list[str]) -> float:
    return sum(reply.startswith("TOOL: git(") for reply in replies) / len(replies)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "mind" / "reflex.npz"


@pytest.mark.parametrize("lag", [0, 40])
async def test_it_learns_which_templates_pay(file: Path, prompt: Asking, lag: int) -> None:
    """From some of all choices to most of them, also where rewards come forty cycles late."""
    replies = await live(ReflexMind(file), prompt, range(1, 301), lag)

    assert share(replies[:50]) < 0.65
    assert share(replies[-50:]) > 0.8


async def test_everything_is_tried_once_before_anything_is_preferred(file: Path, prompt: Asking) -> None:
    """No template is favoured or left out: the first round is in drawn order."""
    mind = ReflexMind(file)
    offered = [template.name for template in TEMPLATES if template.plain is not None and template.name != "answer"]
    replies = [(await mind.complete(prompt(cycle=cycle))).text for cycle in range(1, len(offered) + 1)]
    for cycle, raw in enumerate(replies, 1):
        mind.learn(experience(cycle, raw, paid(raw)))
    reflection = await mind.complete(prompt("reflect"))

    assert f"{len(offered)} of {len(TEMPLATES)} things" in reflection.text
    assert "git" not in reflection.text.split("Worst")[1]
    assert replies[-1].startswith("DO_NOTHING")


async def test_a_tool_used_little_is_explored_by_its_bonus(file: Path, prompt: Asking) -> None:
    """Where all templates were tried and none paid, the tool with the fewest uses is chosen; without a bonus, any."""
    memory = BanditMemory()
    memory.tries[:, 0] = 1
    memory.uses[:] = [50 if group != "git" else 3 for group in GROUPS]
    save(memory, file)
    none = ExplorationBonusSettings(first=0, few=0, many=0)

    [chosen] = await live(ReflexMind(file), prompt, range(1, 2))
    plain = [(await live(ReflexMind(file, bonus=none), prompt, range(n, n + 1)))[0] for n in range(1, 9)]

    assert chosen.startswith("TOOL: git(")
    assert not all(reply.startswith("TOOL: git(") for reply in plain)


async def test_uses_of_tools_survive_a_restart(file: Path, prompt: Asking) -> None:
    """A decision is a use."""
    mind = ReflexMind(file)
    replies = await live(mind, prompt, range(1, 31))
    await mind.close()
    stored = load(file).uses

    assert stored[GROUPS.index("git")] == sum(reply.startswith("TOOL: git(") for reply in replies)
    assert stored.sum() == 30


async def test_blind_choice_stays_blind(file: Path, prompt: Asking) -> None:
    """The baseline chooses among the same templates, learns nothing and leaves no file."""
    mind = ReflexMind(file, explore="random")

    replies = await live(mind, prompt, range(1, 301))
    await mind.close()

    assert share(replies[-100:]) < 0.55
    assert mind.model == "reflex-random-2"
    assert not file.exists()


async def test_the_same_seed_decides_alike(tmp_path: Path, prompt: Asking) -> None:
    """Seed and cycle make all the draws; another seed makes others."""
    runs = [
        await live(ReflexMind(tmp_path / str(n), seed=seed), prompt, range(1, 80)) for n, seed in enumerate((3, 3, 4))
    ]

    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


async def test_what_was_learnt_outlives_the_mind(file: Path, prompt: Asking) -> None:
    """After close, a new mind over the same file decides as the old one would have."""
    old = ReflexMind(file)
    await live(old, prompt, range(1, 120))
    await old.close()
    await old.close()

    new = ReflexMind(file)

    assert share(await live(new, prompt, range(120, 150))) > 0.6


async def test_a_person_who_waits_is_answered_first(file: Path, prompt: Asking) -> None:
    """Whatever else is open, and was paid more."""
    mind = ReflexMind(file)
    await live(mind, prompt, range(1, 60))

    said = (await mind.complete(prompt(cycle=60, goals=(GOAL,), message="How are you?"))).text

    assert said.startswith("TOOL: reply(")


async def test_a_mind_that_was_started_anew_decides_as_one_that_was_not(tmp_path: Path, prompt: Asking) -> None:
    """With more goals than it looks at, too: it goes on with the one that its last act was for."""
    goals = tuple(
        Goal(id=f"g{n}", statement=f"f{n}.md has what notes/tides.md says.", check=FileCheck(path=f"f{n}.md"))
        for n in range(6)
    )

    async def replies(file: Path, ends: int) -> list[str]:
        mind, said = ReflexMind(file, seed=3), list[str]()
        for cycle in range(1, 61):
            if cycle % ends == 0:
                mind._save()
                mind = ReflexMind(file, seed=3)
            last = (RecentOutcome(cycle - 1, parse(said[-1], REGISTRY), "success", ""),) if said else ()
            said.append((await mind.complete(prompt(cycle=cycle, goals=goals, recent=last))).text)
            mind.learn(experience(cycle, said[-1], paid(said[-1])))
        return said

    assert await replies(tmp_path / "a", 7) == await replies(tmp_path / "b", 100)


async def test_how_far_the_learning_is_can_be_read_beside_the_mind(file: Path, prompt: Asking) -> None:
    """Its decisions, what each template brought; without a file there is nothing to read."""
    assert learnt(file) is None
    mind = ReflexMind(file)
    await live(mind, prompt, range(1, 40))
    await mind.close()

    told, kept = learnt(file), load(file)

    assert told is not None
    assert (told.choices, told.calls) == (kept.bandit.choices, len(kept.calls))
    assert told.choices >= 39
    assert [count for count, _ in told.templates.values()] == kept.tries[:, 0].tolist()
    assert sum(count * mean for count, mean in told.templates.values()) == pytest.approx(kept.tries[:, 1].sum())


async def test_a_broken_file_is_left_to_its_mind_by_who_only_looks(file: Path) -> None:
    """It is an error in a sentence, and the file stands where it stood."""
    file.parent.mkdir()
    file.write_bytes(b"no archive")

    with pytest.raises(HomeError, match="cannot be read"):
        learnt(file)
    assert file.read_bytes() == b"no archive"


async def test_a_killed_mind_loses_only_its_last_experiences(file: Path, prompt: Asking) -> None:
    """Without close, what was learnt up to the last writing is there."""
    await live(ReflexMind(file), prompt, range(1, 4 * SAVE_EVERY + 10))

    assert load(file).tries[:, 0].sum() == 4 * SAVE_EVERY


async def test_a_reward_that_comes_after_a_restart_is_learnt(file: Path, prompt: Asking) -> None:
    """Decisions that wait are written down with the rest."""
    mind = ReflexMind(file)
    await live(mind, prompt, range(1, SAVE_EVERY))
    raw = (await mind.complete(prompt(cycle=500))).text
    mind.learn(experience(SAVE_EVERY, "?", 0.1))
    await mind.close()
    before = load(file).tries[:, 0].sum()

    again = ReflexMind(file)
    again.learn(experience(500, raw, 0.5))
    await again.close()

    assert load(file).tries[:, 0].sum() == before + 1


@pytest.mark.parametrize(
    ("second", "count", "mean"),
    [
        ({"revision": 1, "total": 0.9}, 1, 0.1),
        ({"revision": 2, "total": 0.9}, 1, 0.9),
        ({"revision": 2, "total": 0.9, "coverage": 0.2}, 1, 0.1),
        ({"revision": 2, "total": 0.9, "raw": "DO_NOTHING: somebody else's"}, 1, 0.1),
        ({"revision": 2, "total": 0.9, "cycle": 77}, 1, 0.1),
    ],
)
async def test_a_later_revision_corrects_and_nothing_else_does(
    file: Path, prompt: Asking, second: dict[str, Any], count: int, mean: float
) -> None:
    """The same again, hardly scored, of another reply or of an unknown cycle: nothing changes."""
    mind = ReflexMind(file)
    raw = (await mind.complete(prompt(cycle=7))).text
    mind.learn(experience(7, raw, 0.1))

    mind.learn(experience(**{"cycle": 7, "raw": raw, **second}))
    await mind.close()

    tries = load(file).tries.sum(axis=0)
    assert tries[0] == count
    assert tries[1] == pytest.approx(mean)


@pytest.mark.parametrize("broken", [b"", b"no archive", b"PK\x03\x04 but then nothing", b"\x93NUMPY"])
async def test_a_broken_file_is_set_aside(file: Path, prompt: Asking, broken: bytes) -> None:
    """The agent runs on, learning anew; the broken file is kept beside the new one."""
    file.parent.mkdir()
    file.write_bytes(broken)

    mind = ReflexMind(file)
    await live(mind, prompt, range(1, 3))
    await mind.close()

    assert file.with_name("reflex.npz.set-aside").read_bytes() == broken
    assert load(file).tries[:, 0].sum() == 2


@pytest.mark.parametrize("cut", [0.3, 0.9, 0.999])
async def test_a_file_that_was_cut_short_is_set_aside(file: Path, prompt: Asking, cut: float) -> None:
    """Wherever a power failure left it, the next start is clean."""
    mind = ReflexMind(file)
    await live(mind, prompt, range(1, 3))
    await mind.close()
    whole = file.read_bytes()
    file.write_bytes(whole[: int(len(whole) * cut)])

    assert load(file).bandit.choices == 0


async def test_numbers_learnt_for_other_templates_are_set_aside(
    file: Path, monkeypatch: pytest.MonkeyPatch, prompt: Asking
) -> None:
    """A newer version's templates do not inherit what was learnt for others."""
    mind = ReflexMind(file)
    await live(mind, prompt, range(1, 3))
    await mind.close()

    monkeypatch.setattr("conch.minds.embedded.memory.LAYOUT", "another")

    assert load(file).bandit.choices == 0
    assert not file.exists()


def test_a_file_that_is_a_directory_is_an_error_of_the_home(file: Path) -> None:
    """What cannot be read at all is said, not worked around."""
    file.mkdir(parents=True)

    with pytest.raises(HomeError, match="cannot be read"):
        ReflexMind(file)


async def test_a_memory_that_cannot_be_written_costs_no_cycle(tmp_path: Path, prompt: Asking) -> None:
    """Learning goes on in memory where the disk refuses."""
    (tmp_path / "taken").write_text("a file where the directory should be")
    mind = ReflexMind(tmp_path / "taken2" / "reflex.npz")
    mind._path = tmp_path / "taken" / "reflex.npz"

    replies = await live(mind, prompt, range(1, 2 * SAVE_EVERY))
    await mind.close()

    assert len(replies) == 2 * SAVE_EVERY - 1


async def test_a_thought_makes_claims_that_can_be_checked(file: Path, tmp_path: Path, prompt: Asking) -> None:
    """A file that is there or not, a tool, a goal: grounding finds each of them, and no word is made up."""
    (tmp_path / "notes").mkdir()
    for name in ("README.md", "notes/tides.md"):
        (tmp_path / name).write_text("tide")
    mind, goal = ReflexMind(file), Goal(id="g", statement="There is a plan.", check=FileCheck(path="PLAN.md"))
    found = []
    with Notes(":memory:") as notes:
        for cycle in range(1, 40):
            goals = (goal,) if cycle % 2 else ()
            thought = (await mind.complete(prompt("think", cycle=cycle, goals=goals))).text
            grounding = ground(thought, workspace=tmp_path, notes=notes, tools=REGISTRY.names, goals=(goal,))
            found += [(claim.about, claim.verdict) for claim in grounding.claims]

    assert {("workspace", "verified"), ("workspace", "refuted"), ("tool", "verified"), ("goal", "verified")} <= {*found}


async def test_a_waiting_message_is_thought_of_and_answered(file: Path, prompt: Asking) -> None:
    """An answer is a thing to try like any other, once somebody waits."""
    mind = ReflexMind(file)
    await live(mind, prompt, range(1, len(TEMPLATES)))

    thought = await mind.complete(prompt("think", cycle=99, message="Where are the crabs?"))
    reply = await mind.complete(prompt(cycle=99, message="Where are the crabs?"))

    assert "Somebody waits" in thought.text
    assert reply.text.startswith("TOOL: reply(")
    assert "Where crabs" in reply.text


@pytest.mark.parametrize(
    ("acts", "staged"),
    [
        ([("add", "a.csv")], ["a.csv"]),
        ([("add", "a.csv 'b c.md'")], ["a.csv", "b c.md"]),
        ([("add", "--all")], ["."]),
        ([("add", "a.csv"), ("commit", "-m x")], []),
        ([("add", "a.csv"), ("status", "")], ["a.csv"]),
        ([("add", "'")], []),
    ],
)
async def test_it_knows_what_is_staged(
    file: Path, prompt: Asking, acts: list[tuple[str, str]], staged: list[str]
) -> None:
    """From what its acts staged and committed; what cannot be read as arguments stages nothing."""
    mind = ReflexMind(file)
    recent = tuple(
        RecentOutcome(
            n, Action(kind="TOOL", valid=True, tool="git", args={"operation": what, "args": args}), "success", ""
        )
        for n, (what, args) in enumerate(acts, 1)
    )

    await mind.complete(prompt(cycle=9, recent=recent))

    assert list(mind._memory.staged) == [digest(path) for path in staged]


async def test_without_tools_it_rests(file: Path, prompt: Asking) -> None:
    """Tools that are not there are not called, strange ones are left alone; an empty workspace is no trouble."""
    mind = ReflexMind(file)

    replies = [
        (await mind.complete(prompt(cycle=n, tools=("telescope",), files=(), needs={}))).text for n in range(1, 9)
    ]

    assert all(reply.startswith("DO_NOTHING:") for reply in replies)


async def test_before_anything_was_scored_it_says_so(file: Path, prompt: Asking) -> None:
    """A reflection claims nothing that was not learnt."""
    reply = await ReflexMind(file).complete(prompt("reflect"))

    assert "nothing yet" in reply.text
    assert reply.model == "reflex-linucb-2"
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (0, 0)


def test_deciding_and_learning_are_quick(file: Path, prompt: Asking) -> None:
    """The best of many: under 3 ms a decision and 2 ms an experience, on any machine that runs tests."""
    mind, decide, learn = ReflexMind(file), [], []
    with asyncio.Runner() as runner:
        for cycle in range(1, 60):
            began = time.perf_counter()
            raw = runner.run(mind.complete(prompt(cycle=cycle))).text
            decide.append(time.perf_counter() - began)
            late = experience(cycle, raw, 0.4)
            began = time.perf_counter()
            mind.learn(late)
            learn.append(time.perf_counter() - began)

    assert np.min(decide) < 3e-3
    assert np.min(learn) < 2e-3


async def test_its_first_acts_are_calls_of_tools(file: Path, prompt: Asking) -> None:
    """It rests only when each tool's templates were tried."""
    replies = await live(ReflexMind(file), prompt, range(1, 12))

    assert all(reply.startswith("TOOL") for reply in replies), replies


async def test_a_mind_that_may_not_write_chooses_only_what_reads(file: Path, prompt: Asking) -> None:
    """Whatever pays: templates that change the workspace are not offered."""
    names = {template.name for template in TEMPLATES if template.changes}
    mind = ReflexMind(file, writes=False)

    await live(mind, prompt, range(1, 120))

    tried = {TEMPLATES[decision.template].name for decision in mind._memory.decisions.values()}
    assert len(tried) > 8
    assert not tried & names


async def test_a_mind_that_may_not_commit_is_offered_no_commit(file: Path, prompt: Asking) -> None:
    """It may stage; whether it may commit is asked once, before its first decision."""
    asked = list[int]()
    mind = ReflexMind(file, commits=lambda: bool(asked.append(1)))

    await live(mind, prompt, range(1, 120))

    tried = {TEMPLATES[decision.template].name for decision in mind._memory.decisions.values()}
    assert "stage everything" in tried
    assert "commit" not in tried
    assert asked == [1]
