"""What operators use: stream retention, bus permissions, exporters, alarms."""

from .alarms import watched as watched
from .alarms import watched_agents as watched_agents
from .export import FirstSightFilter as FirstSightFilter
from .export import keep_taking as keep_taking
from .http import HttpRequest as HttpRequest
from .http import HttpResponse as HttpResponse
from .http import HttpServer as HttpServer
from .http import ThreadedEndpoint as ThreadedEndpoint
from .http import health_of as health_of
from .http import listen as listen
from .permissions import AGENT as AGENT
from .permissions import COMMANDS as COMMANDS
from .permissions import ROLE as ROLE
from .permissions import RUN as RUN
from .permissions import BusUser as BusUser
from .permissions import PublishedKinds as PublishedKinds
from .permissions import program_user as program_user
from .permissions import users as users
from .retention import KEEP_SECONDS as KEEP_SECONDS
from .retention import RetentionBlocker as RetentionBlocker
from .retention import keep_trimmed as keep_trimmed
from .retention import look as look
