"""The model of the settings: frozen, with a unit in every field's description. Reading is done by `load`."""

from conch.config.model.address import HOST_AND_PORT, host_and_port, is_loopback
from conch.config.model.agent import (
    LEAST_WINDOW,
    MIND_GROUP,
    MINDS,
    SERVED,
    CycleSettings,
    MindSettings,
    OneMindSettings,
    PriceSettings,
    SleepSettings,
    ToolSettings,
    ValuesSettings,
)
from conch.config.model.budget import AlertSettings, BudgetSettings, webhook_key
from conch.config.model.bus import BusSettings, StreamRetentionSettings
from conch.config.model.curiosity import (
    AutonomyDriveWeights,
    CompetenceDriveWeights,
    CuriosityDriveWeights,
    CuriositySettings,
    DiscoverySettings,
    ExplorationBonusSettings,
)
from conch.config.model.edge import MOST_SENSES, ActuatorSettings, EdgeSettings, SenseSettings
from conch.config.model.goals import OwnGoalSettings
from conch.config.model.memory import MemorySettings
from conch.config.model.needs import NeedEventSettings, NeedSettings, NeedsSettings
from conch.config.model.rewards import (
    BUILTIN_COMPONENTS,
    BUILTIN_WEIGHTS,
    PROGRESS_WEIGHT,
    WATCHED_COMPONENTS,
    ConstitutionSettings,
    EffectSettings,
    ExecutionValues,
    FormatValues,
    GoalValues,
    JudgeSettings,
    RewardSettings,
    WatchSettings,
)
from conch.config.model.settings import Settings, StoreRetentionSettings
from conch.config.model.team.settings import RoleSettings, TeamSettings
from conch.config.model.telemetry import METRICS_PORT, LogSettings, MetricsSettings
from conch.config.model.tools.http import HttpToolSettings
from conch.config.model.tools.mcp import McpServerSettings, McpToolSettings
from conch.config.model.tools.policy import PolicyRule
from conch.config.model.training import (
    ForkSettings,
    IntrinsicMotivationSettings,
    RewardWeightSettings,
    TrainingSettings,
)
from conch.config.model.ui import LEAST_TOKEN, UI_PORT, UiSettings

__all__ = [
    "BUILTIN_COMPONENTS",
    "BUILTIN_WEIGHTS",
    "HOST_AND_PORT",
    "LEAST_TOKEN",
    "LEAST_WINDOW",
    "METRICS_PORT",
    "MINDS",
    "MIND_GROUP",
    "MOST_SENSES",
    "PROGRESS_WEIGHT",
    "SERVED",
    "UI_PORT",
    "WATCHED_COMPONENTS",
    "ActuatorSettings",
    "AlertSettings",
    "AutonomyDriveWeights",
    "BudgetSettings",
    "BusSettings",
    "CompetenceDriveWeights",
    "ConstitutionSettings",
    "CuriosityDriveWeights",
    "CuriositySettings",
    "CycleSettings",
    "DiscoverySettings",
    "EdgeSettings",
    "EffectSettings",
    "ExecutionValues",
    "ExplorationBonusSettings",
    "ForkSettings",
    "FormatValues",
    "GoalValues",
    "HttpToolSettings",
    "IntrinsicMotivationSettings",
    "JudgeSettings",
    "LogSettings",
    "McpServerSettings",
    "McpToolSettings",
    "MemorySettings",
    "MetricsSettings",
    "MindSettings",
    "NeedEventSettings",
    "NeedSettings",
    "NeedsSettings",
    "OneMindSettings",
    "OwnGoalSettings",
    "PolicyRule",
    "PriceSettings",
    "RewardSettings",
    "RewardWeightSettings",
    "RoleSettings",
    "SenseSettings",
    "Settings",
    "SleepSettings",
    "StoreRetentionSettings",
    "StreamRetentionSettings",
    "TeamSettings",
    "ToolSettings",
    "TrainingSettings",
    "UiSettings",
    "ValuesSettings",
    "WatchSettings",
    "host_and_port",
    "is_loopback",
    "webhook_key",
]
