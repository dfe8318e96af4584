"""Configuration: the frozen model and its reader."""

from conch.config.model import (
    BUILTIN_WEIGHTS,
    BusSettings,
    CycleSettings,
    MindSettings,
    NeedSettings,
    NeedsSettings,
    RewardSettings,
    Settings,
    ToolSettings,
)

__all__ = [
    "BUILTIN_WEIGHTS",
    "BusSettings",
    "CycleSettings",
    "MindSettings",
    "NeedSettings",
    "NeedsSettings",
    "RewardSettings",
    "Settings",
    "ToolSettings",
]
