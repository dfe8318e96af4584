"""ops/k8s: manifests that a cluster takes, and whose words are those of the services that were seen at work."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from conch.bus.server import find_binary
from conch.config import Settings
from tests.ops.containers import OPS, compose

K8S = OPS / "k8s"
FILES = sorted(file for file in K8S.glob("*.yaml") if file.name != "kustomization.yaml")
OLDEST = "1.33"
"""The first release in which a pod's own user namespace needs no feature gate; the newest is the validator's own."""
LONGEST_PORT = 15
"""Characters of a port's name; no schema says so."""


@cache
def documents(*files: Path) -> list[dict[str, Any]]:
    """All manifests of these files."""
    return [one for file in files for one in yaml.safe_load_all(file.read_text())]


def of(kind: str) -> list[dict[str, Any]]:
    return [one for one in documents(*FILES) if one["kind"] == kind]


def workloads() -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Name, spec and pod of each."""
    found = [*of("StatefulSet"), *of("Deployment")]
    return [(one["metadata"]["name"], one["spec"], one["spec"]["template"]["spec"]) for one in found]


def containers() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Each with its pod."""
    return [(pod, container) for _, _, pod in workloads() for container in pod["containers"]]


@pytest.mark.parametrize("version", [OLDEST, kubernetes_validate.latest_version()])
@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.stem))
def test_the_schemas_of_a_cluster_take_it(file: Path, version: str) -> None:
    """Strictly: no field that is not known."""
    for document in documents(file):
        kubernetes_validate.validate(document, version, strict=True)


def test_kustomize_is_given_all_but_the_example() -> None:
    """The example of the secrets is nobody's to apply."""
    named = yaml.safe_load((K8S / "kustomization.yaml").read_text())["resources"]

    assert sorted(named) == sorted(file.name for file in FILES if file.name != "secret.example.yaml")


def test_what_runs_is_what_runs_in_compose() -> None:
    """The same image and commands, but for where health is told; all but the bridge to a broker."""
    services = compose()["services"]
    theirs = {" ".join(one["command"][:2]): name for name, one in services.items() if one.get("command", "")[:1]}

    for _, container in containers():
        assert container["image"] == services["agent"]["image"]
        if (words := container.get("args", [])) and words[0] == "consume":
            assert words[:3] == services[theirs.pop(" ".join(words[:2]))]["command"][:3]
        elif words:
            [own, other] = (set(one[2].split(",")) for one in (words, services["agent"]["command"]))
            assert (words[:2], other - own) == (services["agent"]["command"][:2], {"mqtt"})
    assert {words for words in theirs if words.startswith("consume")} == {"consume mqtt"}


def test_every_container_is_closed_and_bounded() -> None:
    """No root, no privilege to gain, nothing to write but its volumes; only the agent's pod may make namespaces."""
    for pod, container in containers():
        name, security = container["name"], container["securityContext"]
        assert (security["allowPrivilegeEscalation"], security["readOnlyRootFilesystem"]) == (False, True), name
        assert security["capabilities"] == {"drop": ["ALL"]}, name
        assert pod["securityContext"]["runAsNonRoot"], name
        assert (pod["automountServiceAccountToken"], pod["enableServiceLinks"]) == (False, False), name
        assert {"requests", "limits"} == container["resources"].keys(), name
        profile = pod["securityContext"]["seccompProfile"]["type"]
        assert (profile, pod.get("hostUsers", True)) == (
            ("Unconfined", False) if name == "agent" else ("RuntimeDefault", True)
        ), name


def test_every_container_is_probed_at_a_port_that_it_has() -> None:
    """Whether it has started, is ready, and (what does not look after itself) lives."""
    for _, container in containers():
        ports = {port["name"] for port in container.get("ports", ())}
        wanted = {"startupProbe", "readinessProbe"} | ({"livenessProbe"} if container["name"] != "agent" else set())
        assert wanted <= container.keys(), container["name"]
        for probe in (container[name] for name in wanted):
            assert "exec" in probe or probe["httpGet"]["port"] in ports
        numbers = {port["containerPort"] for port in container.get("ports", ())}
        told = [int(word.rsplit(":", 1)[1]) for word in container.get("args", ()) if word.startswith("0.0.0.0:")]
        assert set(told) <= numbers, container["name"]
    for name, _, pod in workloads():
        ports = [port for container in pod["containers"] for port in container.get("ports", ())]
        assert len({port["containerPort"] for port in ports}) == len(ports), f"{name}: a port twice in one pod"
        assert all(len(port["name"]) <= LONGEST_PORT for port in ports)


def test_what_is_mounted_is_there_and_each_part_has_its_own_key_alone() -> None:
    """Volumes are declared, keys of secrets and settings are known, and nobody is given another's key."""
    known = {one["metadata"]["name"]: set(one["stringData"]) for one in of("Secret")}
    known |= {one["metadata"]["name"]: set(one["data"]) for one in of("ConfigMap")}
    for name, spec, pod in workloads():
        claims = {one["metadata"]["name"] for one in spec.get("volumeClaimTemplates", ())}
        volumes = {volume["name"]: volume for volume in pod.get("volumes", ())}
        for container in pod["containers"]:
            mounted = {mount["name"] for mount in container["volumeMounts"]}
            assert mounted <= volumes.keys() | claims, name
            keys = {item["key"] for each in mounted & volumes.keys() for item in _secret_items(volumes[each])}
            own = {"nats": {"permissions.conf"}, "agent": {"agent.nk", "cli.nk"}}
            assert keys == own.get(container["name"], {f"{container['name']}.nk"})
        for volume in volumes.values():
            parts = volume.get("projected", {}).get("sources", [volume])
            for kind in ("secret", "configMap"):
                for part in (each[kind] for each in parts if kind in each):
                    assert {item["key"] for item in part["items"]} <= known[part.get("secretName") or part["name"]]


def _secret_items(volume: dict[str, Any]) -> list[dict[str, str]]:
    parts = volume.get("projected", {}).get("sources", [volume])
    return [item for part in parts if "secret" in part for item in part["secret"]["items"]]


def test_services_policies_and_budgets_speak_of_pods_that_there_are() -> None:
    """Each selector finds a workload, each named port one of its ports."""
    labels = {name: spec["template"]["metadata"]["labels"] for name, spec, _ in workloads()}
    for name, spec, _ in workloads():
        assert spec["selector"]["matchLabels"] == labels[name]
    for service in of("Service"):
        found = [name for name, its in labels.items() if service["spec"]["selector"].items() <= its.items()]
        assert len(found) == 1
        ports = {port["name"] for _, container in _pods_of(found) for port in container.get("ports", ())}
        assert {port["targetPort"] for port in service["spec"].get("ports", ())} <= ports
    selectors = [one["spec"]["selector"]["matchLabels"] for one in of("PodDisruptionBudget")]
    selectors += [one["spec"]["podSelector"].get("matchLabels", {}) for one in of("NetworkPolicy")]
    assert all(any(each.items() <= its.items() for its in labels.values()) for each in selectors)


def _pods_of(names: list[str]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    return [(pod, one) for name, _, pod in workloads() if name in names for one in pod["containers"]]


def test_its_settings_are_settings_and_its_server_takes_its_configuration(tmp_path: Path) -> None:
    """Read as they stand in the ConfigMap; the server's with the file that ops/prepare.py makes beside it."""
    [settings] = of("ConfigMap")
    read = Settings.model_validate(yaml.safe_load(settings["data"]["conch.yaml"]))
    (tmp_path / "permissions.conf").write_text("accounts { CONCH { jetstream: enabled, users: [] } }")
    (tmp_path / "nats.conf").write_text(settings["data"]["nats.conf"])

    checked = subprocess.run([find_binary(), "-t", "-c", tmp_path / "nats.conf"], capture_output=True, text=True)

    assert read.bus.url == "nats://nats:4222"
    assert checked.returncode == 0, checked.stderr
