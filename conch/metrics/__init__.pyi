"""Metrics that plug-ins publish, rules for Prometheus and dashboards for Grafana."""

from .dashboards import NAMES as NAMES
from .dashboards import dashboard_texts as dashboard_texts
from .dashboards import own_components as own_components
from .dashboards import title_of as title_of
from .exposition import CONTENT_TYPES as CONTENT_TYPES
from .exposition import exposition as exposition
from .exposition import wants_openmetrics as wants_openmetrics
from .plugins import PLUGIN_METRICS as PLUGIN_METRICS
from .plugins import counter as counter
from .plugins import gauge as gauge
from .plugins import histogram as histogram
from .plugins import keep_reporting as keep_reporting
from .rules import as_yaml as as_yaml
from .rules import rule_groups as rule_groups
