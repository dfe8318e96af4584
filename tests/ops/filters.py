"""The sandbox of the agent's tools under a filter of system calls, as a container or a unit puts one on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from conch.processes import bubblewrap_programs
from conch.tools.isolation.bubblewrap import arguments

_LOADED = """
import ctypes, json, os, sys

library = ctypes.CDLL("libseccomp.so.2", use_errno=True)
library.seccomp_init.restype = ctypes.c_void_p
class Compared(ctypes.Structure):
    _fields_ = [
        ("argument", ctypes.c_uint), ("operation", ctypes.c_int), ("mask", ctypes.c_uint64), ("value", ctypes.c_uint64)
    ]
profile, command = json.loads(sys.argv[1]), sys.argv[2:]
ALLOW, FAIL, HERE = 0x7FFF0000, 0x00050000, {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
OPERATIONS = [None, "NE", "LT", "LE", "EQ", "GE", "GT", "MASKED_EQ"]
filter = ctypes.c_void_p(library.seccomp_init(FAIL | 1))
for rule in profile["syscalls"]:
    included = rule.get("includes", {})
    if "caps" in included or HERE not in included.get("arches", [HERE]):
        continue
    action = ALLOW if rule["action"] == "SCMP_ACT_ALLOW" else FAIL | rule.get("errnoRet", 1)
    compared = [
        Compared(one["index"], OPERATIONS.index(one["op"][9:]), one["value"], one.get("valueTwo", 0))
        for one in rule.get("args", ())
    ]
    array = (Compared * len(compared))(*compared)
    for name in rule["names"]:
        number = library.seccomp_syscall_resolve_name(name.encode())
        if number >= 0:
            assert library.seccomp_rule_add_array(filter, action, number, len(compared), array) in (0, -13, -17), name
if os.geteuid() == 0:
    os.setgroups([])
    os.setresgid(10001, 10001, 10001)
    os.setresuid(10001, 10001, 10001)
assert ctypes.CDLL(None).prctl(38, 1, 0, 0, 0) == 0
assert library.seccomp_load(filter) == 0
os.execv(command[0], command)
"""
"""Loads a profile as a container's runtime does for the image's user, and becomes a command."""


def run_sandboxed(profile: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """`true` in a sandbox, under this profile in the form of a container's runtime."""
    with tempfile.TemporaryDirectory() as workspace, open("/dev/null") as users, open("/dev/null") as git:
        os.chmod(workspace, 0o777)
        files = [users.fileno(), git.fileno()]
        options = arguments(
            Path(workspace), {}, mounts=(), tmp_bytes=2**20, passwd=files[0], gitconfig=files[1], status=1, seccomp=None
        )
        return subprocess.run(
            [sys.executable, "-c", _LOADED, json.dumps(profile), bubblewrap_programs()[0], *options, "/bin/true"],
            pass_fds=files,
            capture_output=True,
            text=True,
        )
