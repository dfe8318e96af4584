"""The engine of the mind `local`: llama.cpp's server in a process of its own, and the model files that it serves."""

from .install import install as install
from .models import PACKAGED as PACKAGED
from .models import PackagedModel as PackagedModel
from .models import checked as checked
from .models import checked_base as checked_base
from .models import checked_model as checked_model
from .models import installed_file as installed_file
from .models import models_dir as models_dir
from .serving import ENGINE_MODULE as ENGINE_MODULE
from .serving import FRONT_MODULE as FRONT_MODULE
from .serving import TORCH_MODULE as TORCH_MODULE
from .serving import EngineAddress as EngineAddress
from .serving import RunningEngine as RunningEngine
from .serving import engine_module as engine_module
from .serving import engine_start as engine_start
from .serving import minded as minded
from .serving import running_engine as running_engine
from .tokens import TokenCounter as TokenCounter
