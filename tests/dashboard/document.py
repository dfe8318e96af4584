"""A page as a tree of elements, to be asked for what stands where."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = frozenset({"br", "col", "hr", "img", "input", "link", "meta", "path", "rect", "wbr"})
"""Elements that are never closed; of a drawing, those that our templates close themselves."""


@dataclass
class Element:
    """An element with its attributes, and what stands in it."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Element | str] = field(default_factory=list)

    def __getitem__(self, name: str) -> str:
        return self.attributes[name]

    @property
    def text(self) -> str:
        """All text in it, white space as one blank."""
        return " ".join("".join(self._texts()).split())

    def _texts(self) -> Iterator[str]:
        for child in self.children:
            yield from [child] if isinstance(child, str) else child._texts()

    def all(self, tag: str, **attributes: str) -> list[Element]:
        """Every such element in it, in the order of the page; `class_` names one of the classes."""
        return [one for one in self._below() if one.tag == tag and one._has(attributes)]

    def one(self, tag: str, **attributes: str) -> Element:
        """The first such element."""
        found = self.all(tag, **attributes)
        assert found, f"there is no <{tag}> {attributes} in: {self.text[:500]}"
        return found[0]

    def cells(self) -> list[list[str]]:
        """The texts of a table's body."""
        return [[cell.text for cell in row.all("td")] for row in self.all("tr") if row.all("td")]

    def _below(self) -> Iterator[Element]:
        for child in self.children:
            if not isinstance(child, str):
                yield child
                yield from child._below()

    def _has(self, wanted: dict[str, str]) -> bool:
        mine = self.attributes
        return all(
            value in mine.get("class", "").split() if name == "class_" else mine.get(name.replace("_", "-")) == value
            for name, value in wanted.items()
        )


class _Builder(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open = [Element("document")]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        made = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(made)
        if tag not in VOID:
            self.open.append(made)

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].children.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def parsed(html: str) -> Element:
    """The page. An element that is not closed where it should be is an error."""
    builder = _Builder()
    builder.feed(html)
    builder.close()
    assert len(builder.open) == 1, f"<{builder.open[-1].tag}> is never closed"
    return builder.open[0]
