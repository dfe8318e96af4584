"""What a script or notebook uses: open a home, reach a bus, subscribe to events, run consumers and an agent."""

from .agent import agent as agent
from .blocking import BlockingAgent as BlockingAgent
from .blocking import BlockingCycle as BlockingCycle
from .buses import connect as connect
from .buses import local_bus as local_bus
from .program_agent import ProgramAgent as ProgramAgent
from .program_agent import ProgramCycle as ProgramCycle
from .reading import HomeReader as HomeReader
from .reading import open as open
from .running import consuming as consuming
from .running import running as running
from .runs import AgentRun as AgentRun
from .runs import Run as Run
from .subscription import Subscription as Subscription
from .subscription import publish as publish
from .subscription import subscribe as subscribe
