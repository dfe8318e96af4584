"""Secrets in texts: keys, tokens and passwords, found by their form, by their name and by their place."""

from .find import HIDDEN as HIDDEN
from .find import hide_secrets as hide_secrets
from .find import secret_spans as secret_spans
