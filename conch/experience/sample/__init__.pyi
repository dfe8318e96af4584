"""Samples of experiences, for training: uniform, recent, prioritised, balanced."""

from .limiter import SampleLimiter as SampleLimiter
from .priority import PriorityRule as PriorityRule
from .sampler import ExperienceSampler as ExperienceSampler
from .sampler import SampleBatch as SampleBatch
from .tree import SumTree as SumTree
from .view import SampleView as SampleView
