"""Examples of an action for each kind of task, as a small model is shown them before its own task. Pure.

Their files exist nowhere: a call that is copied unchanged does nothing. SmolLM2-135M copies the form of the last
example, whatever the task is; behind two examples of the task's kind it takes path and text from the task.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

TaskKind = Literal[
    "reply",
    "begin",
    "write",
    "add to",
    "run",
    "correct",
    "stage",
    "commit",
    "look at",
    "search",
    "history",
    "list",
    "rest",
]


class TaskExample(NamedTuple):
    """A task and the action that does it."""

    task: str
    action: str


def _write(path: str, text: str) -> str:
    return f'TOOL: filesystem(operation="write", path="{path}", content="{text}")'


def _read(path: str) -> str:
    return f'TOOL: filesystem(operation="read", path="{path}")'


def _grep(path: str, word: str) -> str:
    return f'TOOL: filesystem(operation="grep", path="{path}", pattern="{word}")'


def _git(operation: str, args: str) -> str:
    return f'TOOL: git(operation="{operation}", args="{args}")'


def _shell(command: str) -> str:
    return f'TOOL: shell(command="{command}")'


EXAMPLES: Final[dict[TaskKind, tuple[TaskExample, ...]]] = {
    "reply": (
        TaskExample("A person says: What is 2 and 3?", 'TOOL: reply(text="It is 5.")'),
        TaskExample("A person says: Hello, who are you?", 'TOOL: reply(text="I am an agent.")'),
    ),
    "begin": (
        TaskExample("Goal: There is a plan.md.\nWrite the file plan.md", _write("plan.md", "This is the plan.")),
        TaskExample(
            "Goal: There is docs/about.txt.\nWrite the file docs/about.txt",
            _write("docs/about.txt", "This is about the documents."),
        ),
    ),
    "write": (
        TaskExample(
            'Write the file names.txt with "Ada", "Bo King", "Cy", "Di and Ed", "Flo"',
            _write("names.txt", "Ada, Bo King, Cy, Di and Ed, Flo"),
        ),
        TaskExample(
            'Write the file shop/list.md with "two eggs", "salt,5"',
            _write("shop/list.md", "two eggs, salt,5"),
        ),
    ),
    "add to": (
        TaskExample(
            'Add to the file names.txt "Ada", "Bo King", "Cy", "Di and Ed"',
            _shell("echo 'Ada, Bo King, Cy, Di and Ed' >> names.txt"),
        ),
        TaskExample(
            'Add to the file TODO.md "two eggs", "salt,5", "rice"',
            _shell("echo 'two eggs, salt,5, rice' >> TODO.md"),
        ),
    ),
    "run": (
        TaskExample("Run make test", _shell("make test")),
        TaskExample("Run sh zoo/open.sh -q", _shell("sh zoo/open.sh -q")),
    ),
    "correct": (
        TaskExample(
            "Goal: The tests in a/test_b.py pass. In a/b.py, `x = 1` should read `x = 2`.",
            _shell("sed -i 's/x = 1/x = 2/' a/b.py"),
        ),
        TaskExample(
            "Goal: The tests in zoo/check.py pass. In zoo/cat.py, `legs + 3` should read `legs + 4`.",
            _shell("sed -i 's/legs + 3/legs + 4/' zoo/cat.py"),
        ),
    ),
    "stage": (
        TaskExample("Goal: The report, src/may.txt, is committed.", _git("add", "src/may.txt")),
        TaskExample("Goal: The table sum.csv is committed.", _git("add", "sum.csv")),
    ),
    "commit": (
        TaskExample(
            "Goal: The report, src/may.txt, is committed.\nDone: git add src/may.txt",
            _git("commit", "-m 'Add src/may.txt'"),
        ),
        TaskExample("Goal: The table sum.csv is committed.\nDone: git add sum.csv", _git("commit", "-m 'Add sum.csv'")),
    ),
    "look at": (
        TaskExample("Need: excellence\nRead one of the files src/sum.py, docs/a.md", _read("docs/a.md")),
        TaskExample("Need: reliability\nRead one of the files box/b.txt, c.csv", _read("box/b.txt")),
    ),
    "search": (
        TaskExample("Need: excellence\nFind a word in the file src/a.txt", _grep("src/a.txt", "sum")),
        TaskExample("Need: reliability\nFind a word in the file zoo/cat.md", _grep("zoo/cat.md", "fur")),
    ),
    "history": (
        TaskExample("Need: excellence\nSee what was changed in the file src/a.txt", _git("log", "-p src/a.txt")),
        TaskExample("Need: reliability\nSee what was changed in the file zoo/cat.md", _git("log", "-p zoo/cat.md")),
    ),
    "list": (
        TaskExample(
            "Need: excellence\nList the folder src/a", 'TOOL: filesystem(operation="list", path="src/a")'
        ),
        TaskExample("Need: reliability\nList the folder .", 'TOOL: filesystem(operation="list", path=".")'),
    ),
    "rest": (
        TaskExample("No goal is open and nobody waits.\nRest", "DO_NOTHING: there is nothing to do"),
        TaskExample("No goal is open and nobody waits.\nRest", "DO_NOTHING: all is done"),
    ),
}  # fmt: skip
"""By kind: the second one is nearest to the task. Each reply is valid with the built-in tools."""
