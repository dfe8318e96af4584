"""The root of the settings, and the experience store's section."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from conch.config.model.agent import CycleSettings, MindSettings, ToolSettings, ValuesSettings
from conch.config.model.budget import AlertSettings, BudgetSettings
from conch.config.model.bus import BusSettings
from conch.config.model.curiosity import CuriositySettings
from conch.config.model.edge import EdgeSettings
from conch.config.model.goals import OwnGoalSettings
from conch.config.model.memory import MemorySettings
from conch.config.model.needs import NeedsSettings
from conch.config.model.rewards import ConstitutionSettings, EffectSettings, RewardSettings, WatchSettings
from conch.config.model.section import SettingsSection
from conch.config.model.team.settings import TeamName, TeamSettings
from conch.config.model.telemetry import LogSettings, MetricsSettings, OtelSettings
from conch.config.model.training import ForkSettings, TrainingSettings
from conch.config.model.ui import UiSettings
from conch_schemas import Goal


class StoreRetentionSettings(SettingsSection):
    """Retention of cycles in the experience store; sums over removed cycles are kept for ever."""

    days: Annotated[float, Field(ge=0.1)] | None = None
    """Days that a cycle stays in the store; none: for ever. The newest 100 cycles of each agent always stay."""
    gib: Annotated[float, Field(ge=0.1)] | None = None
    """GiB of the store from which its oldest cycles are removed; none: no limit."""


class StoreSettings(SettingsSection):
    """The experience store."""

    url: str | None = None
    """sqlite:///path, or postgresql://user:password@host:port/database; none: store.db in the home directory."""
    keep: StoreRetentionSettings = StoreRetentionSettings()
    """Retention in the store; the smaller of days and GiB applies."""


class ConsumerSettings(SettingsSection):
    """How consumers deal with events that they fail at."""

    breaker: Annotated[int, Field(ge=0)] = 5
    """Failed tries in a row with the same error, over two events, until its events become dead letters; 0: never."""


class Settings(SettingsSection):
    """All settings."""

    agent: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")] = "echo"
    """The agent's name: small letters, digits, hyphens."""
    workspace: str | None = None
    """Directory that the agent works in; none: workspace/ in the home directory."""
    bus: BusSettings = BusSettings()
    """The message bus."""
    mind: MindSettings = MindSettings()
    """The mind, which thinks and decides."""
    budget: BudgetSettings = BudgetSettings()
    """Most that an agent may use in an hour and a day: tokens, money, acts. At a limit it pauses."""
    alerts: AlertSettings = AlertSettings()
    """Who is told when an agent waits at a limit of its budget, and when an alarm begins."""
    cycle: CycleSettings = CycleSettings()
    """The cycle: its timing, and the processes that run it."""
    memory: MemorySettings = MemorySettings()
    """What the agent remembers beyond its last acts."""
    tools: ToolSettings = ToolSettings()
    """The tools' sandbox and its limits."""
    values: ValuesSettings = ValuesSettings()
    """Values and guardrails: principles of the agent, and calls that are forbidden."""
    rewards: RewardSettings = RewardSettings()
    """How scores become a total."""
    training: TrainingSettings = TrainingSettings()
    """What the agent is rewarded and driven by, and how its experiences will train a model."""
    forks: ForkSettings = ForkSettings()
    """Forks: other decisions for a recorded prompt, each tried in a copy of the workspace as it was."""
    effects: EffectSettings = EffectSettings()
    """How the agent measures what an act brought about."""
    constitution: ConstitutionSettings = ConstitutionSettings()
    """The constitution: seven principles that acts are scored by."""
    consumers: ConsumerSettings = ConsumerSettings()
    """How consumers deal with events that they fail at."""
    watch: WatchSettings = WatchSettings()
    """The watchers of the reward: windows and alarm bounds."""
    needs: NeedsSettings = NeedsSettings()
    """The agent's needs, and how a change of satisfaction is rewarded."""
    curiosity: CuriositySettings = CuriositySettings()
    """Novelty, the drives, and the part *exploration*."""
    goals: tuple[Goal, ...] = ()
    """Goals that are set when the agent starts, unless they were set before."""
    own_goals: OwnGoalSettings = OwnGoalSettings()
    """Goals that the agent sets itself; each pays in *goal* once a person has accepted it."""
    team: dict[TeamName, TeamSettings] = Field(default_factory=dict)
    """Teams by name: several roles on one task. `conch run --team NAME` runs one; its name is its agent's."""
    store: StoreSettings = StoreSettings()
    """The experience store."""
    metrics: MetricsSettings = MetricsSettings()
    """Prometheus metrics."""
    ui: UiSettings = UiSettings()
    """The dashboard."""
    edge: EdgeSettings = EdgeSettings()
    """MQTT: devices and smart homes."""
    otel: OtelSettings = OtelSettings()
    """OpenTelemetry: traces of the cycles, with their scores."""
    log: LogSettings = LogSettings()
    """Log lines."""
    seed: int = 0
    """Seed of every random choice: the same seed gives the same choices."""

    @model_validator(mode="after")
    def _knows_its_prices(self) -> Self:
        if not self.budget.limits_money:
            return self
        if self.mind.currency is None:
            raise ValueError("budget.money_per_hour and money_per_day need mind.currency, their currency, such as EUR")
        unpriced = [name for name, one in self.mind.blocks().items() if one.kind == "openai" and one.price is None]
        if unpriced:
            raise ValueError(f"budget.money_per_hour and money_per_day need {unpriced[0]}.price, what its tokens cost")
        return self

    @model_validator(mode="after")
    def _listens_itself(self) -> Self:
        if self.edge.listen is not None and self.bus.url is not None:
            raise ValueError("edge.listen is the embedded server's: with bus.url, let your own server listen for MQTT")
        return self
