"""Serving adapters: loads LoRA adapters into the engine that acts, under a name for each, and proves which one acts."""

from .choose import adapter_serving as adapter_serving
from .named import NamedServing as NamedServing
from .probe import PROBE_TOKENS as PROBE_TOKENS
from .probe import ProbeResult as ProbeResult
from .probe import probe as probe
from .probe import record_probe as record_probe
from .probe import unlike_training as unlike_training
from .protocol import AdapterFiles as AdapterFiles
from .protocol import AdapterServing as AdapterServing
from .protocol import served_name as served_name
from .sglang import SGLangServing as SGLangServing
from .vllm import VllmServing as VllmServing
