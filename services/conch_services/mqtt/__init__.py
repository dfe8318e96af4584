"""The MQTT bridge: publishes every event to a broker, turns sensors' messages into events, sends commands to
devices."""

from __future__ import annotations

import conch
from conch.consumer import Service, ServiceContext
from conch_schemas import SenseMeasured, control_subject


@conch.service(name="mqtt", enabled_by="edge.bridge")
def mqtt_service(context: ServiceContext) -> Service:
    """The bridge of this home. Raises UsageError where `edge.bridge` names no broker."""
    from conch_services.mqtt.service import MqttService  # late: not every process talks MQTT

    return MqttService(context)


@conch.service(
    name="devices",
    emits=[SenseMeasured],
    serves=[control_subject("_edge", "actuate")],
    enabled_by=["edge.senses", "edge.actuators"],
)
def inward_service(context: ServiceContext) -> Service:
    """The senses and devices of this home. Raises UsageError where `edge.bridge` names no broker."""
    from conch_services.mqtt.inbound import InboundService  # late: not every process talks MQTT

    return InboundService(context)
