"""Make the dashboards that come with Conch: python ops/dashboards [DIRECTORY], which is conch/metrics.

Writes `grafana/NAME.json` for each dashboard and `component_panel.json`, the panel of a component that comes from
elsewhere. The same definitions give the same files. Needs grafana-foundation-sdk, of the extra `dev`; `conch metrics
dashboards` only reads the files.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

from boards import A_COMPONENT, BOARDS

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # the SDK prefers a model that only the newest Grafana reads
    from grafana import as_json, panel_as_json

    place = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2] / "conch" / "metrics"
    (place / "grafana").mkdir(parents=True, exist_ok=True)
    for board in BOARDS:
        (place / "grafana" / f"{board.uid}.json").write_text(as_json(board))
    (place / "component_panel.json").write_text(panel_as_json(A_COMPONENT))
