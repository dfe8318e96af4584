"""Git in the workspace: what the agent can do with it, and that the person's own git takes no orders from the agent."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from conch.actions import render
from conch.tools import Sandbox, ToolContext
from conch.tools.repository_guard.gitfiles import index_names, only_data
from conch_schemas import Action, Outcome

Act = Callable[..., Awaitable[Outcome]]


def shell(command: str) -> str:
    return render(Action.model_validate({"kind": "TOOL", "valid": True, "tool": "shell", "args": {"command": command}}))


def files(operation: str, path: str, **args: str) -> str:
    given = {"operation": operation, "path": path, **args}
    return render(Action.model_validate({"kind": "TOOL", "valid": True, "tool": "filesystem", "args": given}))


class Person:
    """Somebody who works in the workspace, outside of the sandbox; what runs there makes the file `proof`."""

    def __init__(self, workspace: Path) -> None:
        self.workspace, self.home = workspace, workspace.parent
        self.proof = self.home / "proof"
        (self.home / "run").write_text(f"#!/bin/sh\ntouch {self.proof}\n")

    def git(self, *args: str, at: str = ".") -> str:
        env = {"PATH": os.environ["PATH"], "HOME": str(self.home), "GIT_EDITOR": "true", "LC_ALL": "C"}
        env |= {"GIT_CEILING_DIRECTORIES": str(self.home), "GIT_CONFIG_NOSYSTEM": "1"}
        env |= {f"GIT_{role}_{key}": "p@x" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")}
        done = subprocess.run(
            ["git", *args], cwd=self.workspace / at, env=env, capture_output=True, text=True, check=False
        )
        return done.stdout + done.stderr

    def begin(self) -> None:
        """A repository with one commit."""
        self.git("init", "-q", "-b", "main")
        (self.workspace / "a").write_text("one\n")
        self.git("add", "a")
        self.git("commit", "-q", "-m", "first")

    def work(self, at: str = ".") -> None:
        """What somebody does day by day."""
        for words in ("status", "diff", "log --oneline", "add -A", "commit --allow-empty -m x", "checkout -- .", "st"):
            self.git(*words.split(), at=at)


@pytest.fixture
def person(workspace: Path) -> Person:
    return Person(workspace)


@pytest.fixture
def confined(context: ToolContext, bwrap: Sandbox) -> ToolContext:
    return replace(context, sandbox=bwrap)


ORDERS = {
    "config": "{git} config core.fsmonitor '{run}'",
    "config by hand": "printf '[core]\\n\\tfsmonitor = {run}\\n' >> .git/config",
    "alias": "{git} config alias.st '!{run}'",
    "hook": "mkdir -p .git/hooks; cd .git/hooks; printf '#!/bin/sh\\n{run}\\n' > pre-commit; chmod +x pre-commit",
    "another common directory": "cp -r .git evil; {evil}; echo ../evil > .git/commondir",
    "settings of a worktree": (
        "{git} config extensions.worktreeConfig true; printf '[core]\\n\\tfsmonitor = {run}\\n' > .git/config.worktree"
    ),
    "exchanged": "cp -r .git evil; {evil}; mv .git old; mv evil .git",
    "removed": "cp -r .git evil; {evil}; rm -rf .git; mv evil .git; mv evil/* .git",
    "a file that points elsewhere": "cp -r .git evil; {evil}; rm -rf .git; echo gitdir: evil > .git",
    "a link": "cp -r .git evil; {evil}; rm -rf .git; ln -s evil .git",
    "a submodule": "{git} init -q sub; cd sub; {git} commit -q --allow-empty -m x; {sub}; cd ..; {git} add sub",
    "a submodule's directory": (
        "mkdir -p .git/modules sub; cp -r .git/refs .git/HEAD .git/modules; echo gitdir: ../.git/modules > sub/.git"
    ),
}
"""What an agent does, for whom git would run {run} afterwards."""


def filled(command: str, person: Person) -> str:
    run = f"sh {person.home}/run"
    settings = f"[core]\\n\\trepositoryformatversion = 0\\n\\tfsmonitor = {run}\\n[alias]\\n\\tst = !{run}\\n"
    evil = f"printf '{settings}' > evil/config"
    sub = evil.replace("evil/config", ".git/config")
    return command.format(git="git -c user.name=a -c user.email=a", run=run, evil=evil, sub=sub)


@pytest.mark.parametrize("how", ORDERS)
async def test_a_program_gives_the_persons_git_no_orders(
    act: Act, confined: ToolContext, person: Person, how: str
) -> None:
    """Whatever a program does to `.git`: the person's next commands run nothing, and the repository is as it was."""
    person.begin()

    await act(shell(filled(ORDERS[how], person)), confined)
    person.work()

    assert not person.proof.exists()
    assert "first" in person.git("log", "--format=%s")


@pytest.mark.parametrize("how", ["hook", "config by hand"])
async def test_a_program_hears_that_it_changed_nothing(
    act: Act, confined: ToolContext, person: Person, how: str
) -> None:
    """What is not kept is an error that names it, and so is writing where it is read-only."""
    person.begin()

    outcome = await act(shell(filled(ORDERS[how], person) + " && echo done"), confined)

    assert outcome.status == "error"
    assert ".git" in str(outcome.error) or "Read-only file system" in outcome.output.text


@pytest.mark.parametrize(
    "plan",
    [
        "git init -q . && {root}",
        "mkdir .git && cd .git && mkdir -p objects refs hooks && echo ref: refs/heads/main > HEAD && cd .. && {root}",
        "git init -q --bare evil && {evil} && echo gitdir: evil > .git",
        "git init -q --bare evil && {evil} && mv evil/* .",
    ],
)
async def test_a_new_repository_gives_no_orders(act: Act, confined: ToolContext, person: Person, plan: str) -> None:
    """A workspace that is no repository becomes one with git's own settings, or none."""
    root = filled("{sub}", person)

    await act(shell(plan.format(root=root, evil=filled("{evil}", person))), confined)
    (person.workspace / "f").write_text("x")
    person.work()

    assert not person.proof.exists()


@pytest.mark.parametrize(
    "plan",
    [
        "git init -q deep/sub && cd deep/sub && {sub}",
        "git init -q --bare deep/sub && mv deep/sub evil && {evil} && mv evil deep/sub",
        "git init -q --bare evil && {evil} && mkdir -p deep/sub && echo gitdir: ../../evil > deep/sub/.git",
        "git init -q --bare evil && {evil} && mkdir -p deep/sub && ln -s ../../evil deep/sub/.git",
        "git init -q deep/sub && cd deep/sub/.git/hooks && printf '#!/bin/sh\\n{run}\\n' > pre-commit && chmod +x *",
        "git init -q deep/sub && cp -r deep/sub/.git evil && {evil} && echo ../../../evil > deep/sub/.git/commondir",
    ],
)
async def test_a_nested_repository_gives_no_orders(act: Act, confined: ToolContext, person: Person, plan: str) -> None:
    """A repository that a program makes deeper in the workspace is set aside where git would run something for it."""
    run = f"sh {person.home}/run"

    outcome = await act(
        shell(plan.format(run=run, evil=filled("{evil}", person), sub=filled("{sub}", person))), confined
    )
    person.work(at="deep/sub")

    assert not person.proof.exists()
    assert "set aside" in str(outcome.error)


async def test_a_persons_own_nested_repository_is_left_alone(act: Act, confined: ToolContext, person: Person) -> None:
    """What a person set up deeper in the workspace, with hooks and all, stays, wherever a program moves it."""
    person.git("init", "-q", "sub")
    person.git("config", "core.hooksPath", "/x", at="sub")

    outcome = await act(shell("mv sub other && cd other && git add -A && git commit -q --allow-empty -m x"), confined)

    assert outcome.status == "success"
    assert "x" in person.git("log", at="other")


async def test_a_plain_nested_repository_stays(act: Act, confined: ToolContext, person: Person) -> None:
    """A clone that runs nothing is an ordinary thing to have."""
    person.begin()

    outcome = await act(
        shell("git clone -q . sub && cd sub && git config user.name me && git log -1 --format=%s"), confined
    )

    assert (outcome.status, outcome.output.text) == ("success", "first\n")
    assert "first" in person.git("log", at="sub")


@pytest.mark.parametrize("name", ["COMMIT_EDITMSG", "logs/HEAD", "logs/refs/heads/main", "ORIG_HEAD", "index", "HEAD"])
async def test_git_writes_through_no_link(act: Act, confined: ToolContext, person: Person, name: str) -> None:
    """A link in `.git` that leads to a file of the person's is not kept: git would write there."""
    person.begin()
    target = person.home / ".bashrc"
    target.write_text("mine\n")

    await act(shell(f"ln -sf {target} .git/{name}"), confined)
    person.work()

    assert target.read_text() == "mine\n"
    assert "x" in person.git("log", "-1", "--format=%s")


async def test_an_index_names_no_file_of_git(act: Act, confined: ToolContext, person: Person) -> None:
    """What git would write from an index to its own hooks is not kept."""
    person.begin()
    craft = (
        "import re, hashlib; d = open('.git/index', 'rb').read()[:-20]; n = b'.git/hooks/pre-commit'; "
        "e = d[12:74]; f = (0o100755).to_bytes(4, 'big'); e = e[:24] + f + e[28:60] + len(n).to_bytes(2, 'big') + n; "
        "e += bytes(8 - len(e) % 8); d = d[:8] + (1).to_bytes(4, 'big') + e; "
        "open('.git/index', 'wb').write(d + hashlib.sha1(d).digest())"
    )

    outcome = await act(shell(f'python3 -c "{craft}" && git ls-files'), confined)

    assert outcome.output.text == ".git/hooks/pre-commit\n"
    assert "it names" in str(outcome.error)
    assert person.git("ls-files") == "a\n"


@pytest.mark.parametrize("version", [2, 3, 4])
async def test_the_names_in_an_index_are_read(person: Person, version: int) -> None:
    """In every version, with names that share their beginning and long ones."""
    names = sorted(["a", "dir/b", "dir/bc", "dir/" + "long" * 40, "é", "x" * 250])
    person.git("init", "-q")
    (person.workspace / "dir").mkdir()
    for name in names:
        (person.workspace / name).write_text(name)
    person.git("add", "-A")
    if version == 3:
        (person.workspace / "later").write_text("x")
        person.git("add", "-N", "later")
        names.append("later")
    person.git("update-index", f"--index-version={version}")

    found = list(index_names((person.workspace / ".git/index").read_bytes()))

    assert sorted(found) == sorted(names)


async def test_the_shell_keeps_a_history_too(act: Act, confined: ToolContext, person: Person) -> None:
    """Commits, branches, tags, stashes, packing and merges by programs are there for the person, and the other way."""
    person.begin()
    steps = (
        "echo two > b && git add b && git commit -q -m second",
        "git checkout -q -b topic && echo three > c && git add c && git commit -q -m third && git tag v1",
        "git checkout -q main && git merge -q --no-ff -m merged topic && git branch -d topic && git branch topic/sub",
        "git gc -q && git branch more && echo 4 >> a && git stash -q && git stash list | wc -l",
    )

    outcomes = [await act(shell(step), confined) for step in steps]
    log = person.git("log", "--format=%s", "--topo-order").split()
    person.git("commit", "--allow-empty", "-q", "-m", "mine")
    seen = await act('TOOL: git(operation="log", args="--format=%s -1")', confined)

    assert [(one.status, one.error) for one in outcomes] == [("success", None)] * 4
    assert log == ["merged", "third", "second", "first"]
    assert person.git("fsck", "--strict") == ""
    assert person.git("branch", "--format=%(refname:short)").split() == ["main", "more", "topic/sub"]
    assert person.git("status", "--short") == ""
    assert person.git("tag") == "v1\n"
    assert seen.output.text == "mine\n"
    assert not [path.name for path in (person.workspace / ".git").iterdir() if path.name.startswith("conch-")]


async def test_a_program_makes_a_repository(act: Act, confined: ToolContext, person: Person) -> None:
    """`git init` is kept, with who commits there and nothing else."""
    outcome = await act(
        shell("git init -q -b trunk && git config user.name Robin && echo x > f && git add f && git commit -q -m mine"),
        confined,
    )

    assert (outcome.status, outcome.error) == ("success", None)
    assert person.git("log", "--format=%an:%s") == "Robin:mine\n"
    assert person.git("branch", "--show-current") == "trunk\n"
    assert person.git("status", "--short") == ""


async def test_a_change_that_keeps_size_and_time_of_a_file_of_git_is_kept(
    act: Act, confined: ToolContext, person: Person
) -> None:
    """A file is compared by its inode and the time of its last change, which a program cannot set."""
    person.begin()
    switch = 'printf "ref: refs/heads/othe\\n" > .git/HEAD && touch -r /tmp/before .git/HEAD'

    done = await act(shell(f"git branch othe && touch -r .git/HEAD /tmp/before && {switch}"), confined)

    assert done.status == "success", done
    assert person.git("branch", "--show-current") == "othe\n"


async def test_the_persons_change_stands(act: Act, confined: ToolContext, person: Person) -> None:
    """A branch that the person moves while a program moves it as well is the person's; the program hears of it."""
    person.begin()
    os.mkfifo(person.workspace / "wait")
    command = shell("git commit -q --allow-empty -m agents; cat wait")

    acting = asyncio.create_task(act(command, confined))
    file = await asyncio.to_thread(open, person.workspace / "wait", "w")
    while not any("agents" in log.read_text() for log in person.workspace.glob(".git/conch-*/logs/HEAD")):
        await asyncio.sleep(0.01)
    person.git("commit", "-q", "--allow-empty", "-m", "persons")
    file.close()
    outcome = await acting

    assert person.git("log", "-1", "--format=%s") == "persons\n"
    assert "changed meanwhile" in str(outcome.error)


@pytest.mark.parametrize("path", [".git/config", ".GIT/hooks/pre-commit", "sub/.git/config", ".git", "x/.Git"])
@pytest.mark.parametrize("operation", ["write", "mkdir", "delete"])
async def test_files_of_git_are_not_written_by_hand(
    act: Act, person: Person, workspace: Path, operation: str, path: str
) -> None:
    """Neither the file nor the directory, in any spelling, at any depth; reading it is allowed."""
    person.begin()
    before = sorted(workspace.rglob("*"))

    outcome = await act(files(operation, path, content="[core]\n\tfsmonitor = x\n"))

    assert outcome.status == "blocked"
    assert ".git" in str(outcome.error)
    assert sorted(workspace.rglob("*")) == before
    assert (await act(files("read", ".git/HEAD"))).status == "success"


async def test_a_repository_in_disguise_is_not_written(act: Act, person: Person) -> None:
    """Git takes any directory with HEAD, objects and refs for a repository: no tool completes one."""
    for path in ("d/objects", "d/refs"):
        await act(files("mkdir", path))
    await act(files("write", "d/config", content=f"[core]\n\tbare = true\n[alias]\n\tst = !sh {person.home}/run\n"))

    outcome = await act(files("write", "d/HEAD", content="ref: refs/heads/main\n"))
    person.work(at="d")

    assert outcome.status == "blocked"
    assert not person.proof.exists()


@pytest.mark.parametrize(
    ("config", "harmless"),
    [
        ("[core]\n\tbare = false\n", True),
        ("# x\n[user]\n\tname = José B.\n\temail = a+b@c.d\n", True),
        ('[remote "origin"]\n\turl = ../a.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n', True),
        ("[core]\n\tfsmonitor = x\n", False),
        ("[core] fsmonitor = x\n", False),
        ("[CORE]\n\tFSMonitor = x\n", False),
        ("[user]\n\tname = a\\\n", False),
        ("[include]\n\tpath = x\n", False),
        ('[remote "o"]\n\turl = ext::sh -c x\n', False),
        ('[remote "o"]\n\turl = ext::x\n', False),
        ("[core]\n\tworktree = /\n", False),
    ],
)
def test_settings_are_known_to_be_harmless(config: str, harmless: bool) -> None:
    """Only lines that are known to make git run nothing count as data."""
    assert only_data(config) is harmless
