"""Configuration: the frozen settings model, and its loader from conch.yaml, environment and command line."""

from conch.config.model import (
    BUILTIN_COMPONENTS,
    BUILTIN_WEIGHTS,
    WATCHED_COMPONENTS,
    BusSettings,
    ConstitutionSettings,
    CycleSettings,
    JudgeSettings,
    MindSettings,
    NeedSettings,
    NeedsSettings,
    RewardSettings,
    Settings,
    ToolSettings,
    UiSettings,
    WatchSettings,
)

__all__ = [
    "BUILTIN_COMPONENTS",
    "BUILTIN_WEIGHTS",
    "WATCHED_COMPONENTS",
    "BusSettings",
    "ConstitutionSettings",
    "CycleSettings",
    "JudgeSettings",
    "MindSettings",
    "NeedSettings",
    "NeedsSettings",
    "RewardSettings",
    "Settings",
    "ToolSettings",
    "UiSettings",
    "WatchSettings",
]
