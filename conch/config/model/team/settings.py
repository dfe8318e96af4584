"""Settings of teams: roles that work on one task, their topology, and the controller that may switch it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, field_serializer, model_validator

from conch.config.model.agent import SERVED, OneMindSettings
from conch.config.model.section import SettingsSection
from conch_schemas import Goal

PLANNER, ALL = "planner", "all"
MOST_ROLES = 8
TeamName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,52}$")]
RoleName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,29}$")]


class RoleSettings(SettingsSection):
    """One role of a team."""

    prompt: Annotated[str, Field(min_length=1, max_length=4000)]
    """What the role is for, in words to the mind that has its turn."""
    tools: tuple[str, ...] | None = None
    """The tools that it may use, by name; none: all. It may always use tell."""
    mind: OneMindSettings | None = None
    """A mind of this role's own, openai, scripted or a package's; none: mind, which several roles share."""
    worker: bool = False
    """Whether its mind runs in a process of its own, conch team role, on any machine that reaches the bus."""


def _default_roles() -> dict[RoleName, RoleSettings]:
    return {
        "planner": RoleSettings(
            prompt="You plan. Read the task and the files, say what is to be done next and by which role.",
        ),
        "coder": RoleSettings(prompt="You write code. Make one change at a time, by what you were told."),
        "runner": RoleSettings(prompt="You run the tests, and say which of them fail and why."),
        "critic": RoleSettings(prompt="You read what was changed, and say what is wrong or missing."),
    }


class TeamControllerSettings(SettingsSection):
    """The controller, which chooses the topology after each step."""

    kind: Literal["learned", "frozen", "fixed", "random"] = "learned"
    """learned: the bandit; frozen: what it learnt, without exploring; fixed: the topology stays; random: drawn."""
    ridge: Annotated[float, Field(gt=0)] = 0.01
    """λ of the regressions."""
    epsilon_start: Annotated[float, Field(ge=0, le=1)] = 0.20
    """Share of random choices at first, 0..1."""
    epsilon_end: Annotated[float, Field(ge=0, le=1)] = 0.05
    """Share of random choices in the end, 0..1."""
    epsilon_decisions: Annotated[int, Field(ge=1)] = 5000
    """Decisions over which it falls."""
    dwell: Annotated[int, Field(ge=0)] = 2
    """Steps that a topology stays at least."""
    cooldown: Annotated[int, Field(ge=0)] = 2
    """Steps after a switch without another one."""


class TeamSettings(SettingsSection):
    """One team."""

    goal: Goal | None = None
    """The task; its check is a test suite. None: the goals of the home."""
    roles: Annotated[dict[RoleName, RoleSettings], Field(max_length=MOST_ROLES)] = Field(default_factory=_default_roles)
    """The roles by name, in the order of the chain: the four of the default, changed and added to; null: none such."""
    topology: Literal["star", "chain", "flat"] = "star"
    """The topology of the first step."""
    controller: TeamControllerSettings = TeamControllerSettings()
    """The controller, which chooses the topology after each step."""
    turn_seconds: Annotated[float, Field(gt=0, le=86_400)] = 120.0
    """Seconds that a worker has to answer a question of its role's turn; then the turn passes to the next role."""
    token_budget: Annotated[int, Field(ge=0)] = 10_000
    """Output tokens of a task that the controller sees the headroom of; 0: it sees none."""
    message_bytes: Annotated[int, Field(ge=1, le=65_536)] = 4096
    """Bytes of a message at most."""
    queued: Annotated[int, Field(ge=1, le=1000)] = 100
    """Messages that wait to be delivered to one role, at most; then its senders are refused."""
    delivered: Annotated[int, Field(ge=1, le=1000)] = 100
    """Delivered messages that a role has not read, at most; then a switch waits for its turn."""

    @model_validator(mode="before")
    @classmethod
    def _keeps_the_default_roles(cls, given: object) -> object:
        """The default roles stay, with what is said of them; a role that is null is left out."""
        if not isinstance(given, Mapping) or not isinstance(roles := given.get("roles"), Mapping):
            return given
        known = _default_roles()
        named = {
            name: {"prompt": known[name].prompt, **role} if name in known and isinstance(role, Mapping) else role
            for name, role in roles.items()
        }
        return {**given, "roles": {name: role for name, role in {**known, **named}.items() if role is not None}}

    @field_serializer("roles", mode="wrap")
    def _with_left_out(
        self, roles: dict[RoleName, RoleSettings], handler: SerializerFunctionWrapHandler
    ) -> dict[str, object]:
        """The roles, with null for each default role that is left out: validated again, it stays left out."""
        return {**handler(roles), **{name: None for name in _default_roles() if name not in roles}}

    @model_validator(mode="after")
    def _can_work(self) -> Self:
        if PLANNER not in self.roles:
            raise ValueError("a team has a planner, which a star goes through: name the role planner")
        if ALL in self.roles:
            raise ValueError("a message to all goes to every role: no role can be named all")
        if len(self.roles) < 2:
            raise ValueError("a team has two roles at least: one alone is an agent, run it without a team")
        for name, role in self.roles.items():
            if role.mind is not None and role.mind.price is not None:
                raise ValueError(f"roles.{name}.mind.price: a role's own mind has no price, set it as mind")
            if role.mind is not None and (role.mind.kind in SERVED or role.mind.kind == "reflex"):
                raise ValueError(
                    f"roles.{name}.mind: a mind of the kind {role.mind.kind} is shared by all roles, set it as mind; "
                    "a role's own is openai, scripted, or of a package"
                )
        if self.goal is not None and self.goal.check.kind != "tests":
            raise ValueError("goal.check: a team's task is measured by a test suite, kind: tests with its command")
        return self
