"""Connections to servers, and what the environment may say about them."""

from .environment import REQUESTS_CAS as REQUESTS_CAS
from .environment import EnvironmentProxy as EnvironmentProxy
from .environment import check_environment as check_environment
from .environment import check_file as check_file
from .environment import proxy_of as proxy_of
from .environment import tls_context as tls_context
from .http import http_client as http_client
from .http import http_tls as http_tls
from .own_machine import is_own_machine as is_own_machine
