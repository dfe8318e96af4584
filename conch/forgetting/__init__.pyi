"""Removal of a person's data from all that a home holds: `conch forget`."""

from .find import Found as Found
from .find import find as find
from .find import message_text as message_text
from .needle import SHORTEST as SHORTEST
from .needle import Needle as Needle
from .remove import find_in as find_in
from .remove import finish as finish
from .request import ForgetReport as ForgetReport
from .request import ForgetRequest as ForgetRequest
from .request import read_report as read_report
from .request import read_request as read_request
from .request import write_request as write_request
