"""Composition: rules made into one reward, over one trajectory, a batch, or a group of replies to one state.

Message(role: str, content: str)
Trajectory(messages: tuple[Message, ...], completion_tokens: tuple[int, ...] = (), facts: Mapping[str, Any] = {})
cache_key(messages: Iterable[Message | Mapping[str, Any]]) -> str          32 hex digits
length_penalty(trajectory: Trajectory) -> float                            in [0, 1]
"""

from conch.rewards.compose.trajectory import Message, Trajectory, cache_key, length_penalty

__all__ = ["Message", "Trajectory", "cache_key", "length_penalty"]
