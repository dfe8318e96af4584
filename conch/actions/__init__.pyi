"""What a mind may say, and the one parser that reads it."""

from .constraint import gbnf as gbnf
from .constraint import regex as regex
from .described import DescribedArgument as DescribedArgument
from .described import ToolSchema as ToolSchema
from .described import UnreadableSchemaError as UnreadableSchemaError
from .effects import BUILTIN_EFFECTS as BUILTIN_EFFECTS
from .effects import Effects as Effects
from .effects import effect_of as effect_of
from .effects import forbidden_as as forbidden_as
from .grammar import MAX_REPLY_BYTES as MAX_REPLY_BYTES
from .grammar import parse as parse
from .grammar import render as render
from .registry import NAME as NAME
from .registry import Argument as Argument
from .registry import ArgumentType as ArgumentType
from .registry import Registry as Registry
from .registry import ToolSpec as ToolSpec
from .schema import call_schemas as call_schemas
from .schema import from_call as from_call
from .schema import from_json as from_json
from .schema import json_schema as json_schema
