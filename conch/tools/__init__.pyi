"""What the agent can do: tools, the sandbox that programs run in, and the checks of goals."""

from .builtin import BUILTIN_TOOLS as BUILTIN_TOOLS
from .checks import CheckResult as CheckResult
from .checks import run_check as run_check
from .declare import Tool as Tool
from .declare import ToolContext as ToolContext
from .declare import ToolResult as ToolResult
from .declare import tool as tool
from .device import ACTUATE as ACTUATE
from .device import device_tools as device_tools
from .device import payload_of as payload_of
from .file_pool import FilePool as FilePool
from .isolation.sandbox import ProcessResult as ProcessResult
from .isolation.sandbox import Sandbox as Sandbox
from .mcp.server import McpServer as McpServer
from .mcp.server import open_servers as open_servers
from .notes import Notes as Notes
from .own.host import ToolFile as ToolFile
from .own.host import open_files as open_files
from .policy import ALLOWED as ALLOWED
from .policy import Ruling as Ruling
from .policy import ToolPolicy as ToolPolicy
from .toolbox import Toolbox as Toolbox
from .web.fetch import http_tools as http_tools
from .workspace import MissingError as MissingError
from .workspace import Workspace as Workspace
