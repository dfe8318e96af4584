"""Reports: one signed HTML page of a cycle, of a run, or of two of them side by side, that opens without Conch."""

from .models import Report as Report
from .models import ReportedRun as ReportedRun
from .page import rendered as rendered
from .run import run_figures as run_figures
from .seal import ReportChecked as ReportChecked
from .seal import check as check
from .seal import sealed as sealed
from .trained import training_figures as training_figures
