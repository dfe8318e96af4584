"""Read a home: its experiences as rows, while a run goes on or without one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from conch.config import load
from conch.errors import HomeError, UsageError
from conch.experience import ExperienceReader, ScoredSince, store_location
from conch.home import Home
from conch.library.arrow import CYCLES, FIGURES, GOALS, MARKS, SCORES, TRANSITIONS, Columns, Rows
from conch.library.rows import (
    Row,
    cycle_row,
    goal_rows,
    mark_row,
    nested_cycle_row,
    score_rows,
    transition_row,
)
from conch_schemas import ExperienceRecorded

if TYPE_CHECKING:
    from conch.experience.sample import ExperienceSampler, PriorityRule, SampleLimiter


def open(home: Path | str | None = None) -> HomeReader:  # public as `conch.open`, like `gzip.open`
    """Open a home for reading, beside a run or without one. Nothing is written but an index of SQLite's.

    `home`: its directory; None: the one that CONCH_HOME names, else `~/.local/share/conch`. A store of an earlier
    version is brought up to date when it is first opened, as by every command.

    Raises HomeError for a directory that is no home or was made by a newer version, ConfigError for a `conch.yaml` that
    cannot be read, StoreError where no agent has acted yet, and where the store is damaged, locked or newer.

    ```python
    import conch

    async with conch.MemoryBus() as bus, conch.running(bus, mind=["DO_NOTHING: rest"], home="demo") as run:
        await run.finished()

    with conch.open("demo") as home:
        for row in home.cycles(limit=10):
            print(row["cycle"], row["skill"], row["total"])
    ```
    """
    where = Home.at(home)
    if not (where.path / "format").exists():
        raise HomeError(f"{where.path} is no home: conch init or conch run makes one, or name another directory")
    where.refuse_newer()
    settings = load(None, where, {})
    reader = store_location(settings.store.url, where.path).reader()
    return HomeReader(where.path, reader, sampled=settings.training.experience_buffer_size)


class HomeReader:
    """An open home, made by `conch.open`. Leave it as a context, or call `close`; closed twice is closed once.

    Rows are flat dicts, one after the other, oldest first: `pandas.DataFrame(home.cycles())` and
    `polars.DataFrame(home.cycles())` work. They are read in pages of 100, so a home of any size takes little memory,
    and a run that writes meanwhile is not held up; each page is of one moment. With the extra `data` rows are an Arrow
    stream too (`Rows`), which polars, DuckDB, pyarrow and pandas read as columns, without a copy.

    The methods that give rows take the same arguments. `agent`: its name; None: all agents. `since`: the first cycle
    (an int) or the first moment (a datetime; a naive one is local time). `limit`: only those of the last `limit`
    cycles. They raise UsageError for an agent that has not acted and for a limit below 1, StoreError where the store
    cannot be read any more or the home was closed.

    ```python
    import conch

    async with conch.MemoryBus() as bus, conch.running(bus, mind=["DO_NOTHING: rest"]) as run:
        await run.finished()
        with conch.open(run.home) as home:
            home: conch.HomeReader
            assert home.agents == ("echo",)
            assert [row["component"] for row in home.scores()][:2] == ["format", "execution"]
    ```
    """

    def __init__(self, path: Path, store: ExperienceReader, *, sampled: int) -> None:
        self.path = path
        """The home's directory."""
        self._store = store
        self._sampled = sampled

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the store. Twice is once."""
        self._store.close()

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of the agents that have acted, sorted."""
        return self._store.agents()

    def experiences(
        self, agent: str | None = None, *, since: int | datetime | None = None, limit: int | None = None
    ) -> Iterator[ExperienceRecorded]:
        """The experiences themselves, as typed events, each as of its latest revision."""
        self._refuse(agent, limit)
        return self._store.cycles.walk(agent, _since(since), limit)

    def cycles(
        self, agent: str | None = None, *, since: int | datetime | None = None, limit: int | None = None
    ) -> Rows:
        """One row for each recorded cycle.

        Columns: `agent`, `cycle`, `action_id`, `time` (datetime in UTC), `thought`, `reflection` (empty while not
        known), `raw` (the mind's reply), `kind` (TOOL, DO_NOTHING, REFLECT, INVALID), `tool`, `skill`, `valid`,
        `outcome` (a status), `error`, `output`, `total`, `coverage` (0..1), `complete`, `revision`, `model`, `policy`,
        `episode`, `input_tokens`, `output_tokens`; `ms_think`, `ms_ground`, `ms_decide`, `ms_act`, `ms_reflect`
        (milliseconds); `score_NAME` for each component (None: not scored), of which `score_format`,
        `score_execution`, `score_needs`, `score_goal` and `score_exploration` are always there; `need_NAME_before` and
        `need_NAME_after` (0..1), where the needs are known. The Arrow stream has these, each flat column of a score or
        need that occurs in its first batch, and nested columns with all of them: `scores` (structs of `component`,
        `scorer`, `version`, `status`, `value`, `weight`, `role`, `explanation`), `goals` (structs of `goal`,
        `statement`, `outcome`, `measure`, `best`), `needs_before` and `needs_after` (maps).
        """
        self._refuse(agent, limit)
        found = partial(self.experiences, agent, since=since, limit=limit)
        return Rows(lambda: map(cycle_row, found()), CYCLES, lambda: map(nested_cycle_row, found()))

    def transitions(
        self, agent: str | None = None, *, since: int | datetime | None = None, limit: int | None = None
    ) -> Rows:
        """One row for each recorded cycle: the state, the action, its reward and the state that it led to.

        Columns: `agent`, `cycle`, `action_id`, `time`; `state` and `next_state` (None until the agent's next act is
        stored), each with `cycle`, `step`, `needs` (name -> 0..1; None: not known), `goals` (`goal`, `statement`,
        `best` up to then), `observation` (the messages that the mind was given: `role`, `content`); `action` with
        `kind`, `tool`, `args` (JSON), `text`, `raw`; `reward` (the total), `coverage` (0..1), `complete`, `episode`,
        `terminal` (whether the episode of a task ended with it).
        """
        self._refuse(agent, limit)
        found = partial(self._store.cycles.transitions, agent, _since(since), limit)
        return Rows(lambda: map(transition_row, found()), TRANSITIONS)

    def scores(
        self, agent: str | None = None, *, since: int | datetime | None = None, limit: int | None = None
    ) -> Rows:
        """One row for each score of each recorded cycle.

        Columns: `agent`, `cycle`, `action_id`, `time`, `component`, `scorer`, `version`, `status` (scored,
        not_applicable, error, timeout), `value` (None: not scored), `weight` (0..1), `role`, `explanation`.
        """
        return self._each(score_rows, SCORES, agent, since, limit)

    def goals(self, agent: str | None = None, *, since: int | datetime | None = None, limit: int | None = None) -> Rows:
        """One row for each active goal of each recorded cycle: what its check measured after the act.

        Columns: `agent`, `cycle`, `action_id`, `time`, `goal` (its id), `statement`, `outcome` (achieved, partial,
        neutral, error), `measure` and `best` (0..1; the best before this act), `detail`.
        """
        return self._each(goal_rows, GOALS, agent, since, limit)

    def marks(self, agent: str | None = None) -> Rows:
        """One row for each mark of the witness chain, by agent and sequence. It is not verified: `conch mark verify`
        does that. Raises CheckError at a row that is no mark.

        Columns: `agent`, `sequence`, `action_id`, `domain`, `origin`, `evidence`, `stimulus`, `response`, `reasoning`,
        `event` (the id of the witnessed event), `previous`, `hash`; `principle_NAME` (0..1) for each scored principle.
        """
        self._refuse(agent, None)

        def rows() -> Iterator[Row]:
            names = self.agents if agent is None else (agent,)
            return (mark_row(mark) for name in names for mark in self._store.chain.marks(name))

        return Rows(rows, MARKS)

    def key_figures(self, agent: str | None = None, *, limit: int = 1000) -> Rows:
        """One row for each key figure of each agent, over its last `limit` recorded cycles.

        Columns: `agent`, `name`, `value` (None: too few cycles), `low` and `high` (its 95 % interval; None: it has
        none), `unit`, `cohort` (seen: recorded; scored: with a total or with needs measured), `cycles` (how many
        of the cohort). Names: format_compliance, tool_success, needs_improvement, unique_skills, skill_entropy,
        learning_progress (over the last 200 cycles at most, under the weights in force), reward_coverage.
        """
        from conch.views import cohort_figures  # only here: rows do without the rules

        self._refuse(agent, limit)

        def rows() -> Iterator[Row]:
            for name in self.agents if agent is None else (agent,):
                charts = self._store.charts
                for figure in cohort_figures(charts.points(name, limit), charts.weight_sets(name)):
                    yield {"agent": name, **figure._asdict()}

        return Rows(rows, FIGURES)

    def sampler(
        self,
        agent: str | None = None,
        *,
        size: int | None = None,
        seed: int = 0,
        priority: PriorityRule | None = None,
        limiter: SampleLimiter | None = None,
    ) -> ExperienceSampler:
        """Draws batches of experiences for training: uniform, the newest, by priority, balanced; see
        `conch.experience.sample`.

        `agent`: its name; None: all agents. `size`: newest experiences that are drawn from; None: the setting
        `training.experience_buffer_size`, 10,000 by default. The same rows and the same seed give the same draws. What
        is recorded, revised and removed meanwhile is taken in before each draw. Use it in one thread, while the home is
        open.

        Raises UsageError for an agent that has not acted and for a size below 1.

        ```python
        import conch

        async with conch.MemoryBus() as bus, conch.running(bus, mind=["DO_NOTHING: rest"]) as run:
            await run.finished()
            with conch.open(run.home) as home:
                batch = home.sampler(seed=1).prioritised(256)
                assert set(batch.cycles.tolist()) == {0}
                assert batch.weights.max() == 1.0
        ```
        """
        from conch.experience.sample import ExperienceSampler  # only here: numpy takes a tenth of a second

        self._refuse(agent, None)
        return ExperienceSampler(
            self._store.sampling,
            agent=agent,
            size=self._sampled if size is None else size,
            seed=seed,
            priority=priority,
            limiter=limiter,
        )

    def _each(
        self,
        rows_of: Callable[[ExperienceRecorded], Iterator[Row]],
        columns: Columns,
        agent: str | None,
        since: int | datetime | None,
        limit: int | None,
    ) -> Rows:
        """The rows of each experience, one after the other."""
        self._refuse(agent, limit)
        found = partial(self.experiences, agent, since=since, limit=limit)
        return Rows(lambda: (row for experience in found() for row in rows_of(experience)), columns)

    def _refuse(self, agent: str | None, limit: int | None) -> None:
        if limit is not None and limit < 1:
            raise UsageError(f"limit is {limit}: at least 1")
        if agent is not None and agent not in (there := self.agents):
            raise UsageError(f"no agent named {agent!r} has acted in {self.path}, but {', '.join(there) or 'none'}")


def _since(since: int | datetime | None) -> ScoredSince:
    return ScoredSince(time=since) if isinstance(since, datetime) else ScoredSince(cycle=since or 0)
