"""The OpenAPI document: generated from the models of what is answered."""

from __future__ import annotations

import json
import re

from conch_services.dashboard.api import openapi


def test_every_reference_of_the_document_leads_to_a_schema() -> None:
    """Also where a schema has another name than its class."""
    described = openapi()

    named = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(described)))

    assert named <= set(described["components"]["schemas"])
    assert {"Problem", "ChainProblem", "NeedChange", "NeedCause", "Told"} <= named


def test_the_schemas_say_what_is_answered() -> None:
    """A problem is the one of RFC 9457, a change of needs has its causes, fields are described."""
    schemas = openapi()["components"]["schemas"]

    assert list(schemas["Problem"]["properties"]) == ["schema", "status", "title", "detail"]
    assert schemas["NeedChange"]["properties"]["changes"]["items"] == {"$ref": "#/components/schemas/NeedCause"}
    assert list(schemas["ChainProblem"]["properties"]) == ["kind", "agent", "sequence", "what"]
    assert schemas["CycleRow"]["properties"]["coverage"]["description"] == "Scored parts among those that apply, 0..1."
    assert schemas["AgentStatus"]["required"] == ["agent", "state", "why"]
