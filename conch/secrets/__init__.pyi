"""Secrets in texts: keys, tokens and passwords, found by their form, by their name and by their place."""

from .find import HIDDEN as HIDDEN
from .find import hide_secrets as hide_secrets
from .find import is_secret_of as is_secret_of
from .find import may_become_secret as may_become_secret
from .find import secret_spans as secret_spans
from .signs import SecretSigns as SecretSigns
