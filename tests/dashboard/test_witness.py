"""The page of the witness: the chain in pages, whether it holds, and where it is broken."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Awaitable, Callable

from playwright.async_api import Page, expect

from conch.consumer.group.lag import report_position
from conch.experience import SqliteReader, packing
from conch_schemas import ActionTaken, Mark
from conch_services.dashboard.page import MARK_WORDS
from tests.dashboard.conftest import CYCLES, Dashboard
from tests.dashboard.document import Element, parsed
from tests.dashboard.life import whole


def chain(dashboard: Dashboard) -> list[Mark]:
    """Every mark of the agent."""
    with SqliteReader(dashboard.world.store.file) as reader:
        return list(reader.chain.marks("echo"))


async def page(dashboard: Dashboard, path: str = "/witness") -> Element:
    """The page as it answers."""
    answer = await dashboard.client.get(path)
    assert answer.status_code == 200, answer.text
    return parsed(answer.text)


async def found(dashboard: Dashboard, until: Callable[..., Awaitable[None]]) -> Element:
    """The verdict, once it is made."""
    await page(dashboard)

    async def made() -> bool:
        return "verifying" not in (await dashboard.client.get("/witness/check")).text

    await until(made)
    return parsed((await dashboard.client.get("/witness/check")).text)


async def test_the_chain_is_browsed_page_by_page(dashboard: Dashboard) -> None:
    """Every mark once, the newest first, by following the pages to the last one."""
    path, seen = "/witness", []
    while True:
        shown = await page(dashboard, path)
        table = shown.one("section", id="marks").one("table")
        seen += [int(row[0]) for row in table.cells()]
        older = shown.all("a", rel="next")
        if not older:
            break
        path = older[0]["href"].removeprefix(dashboard.prefix)

    assert seen == [mark.sequence for mark in reversed(chain(dashboard))]


async def test_a_long_statement_ends_in_an_ellipsis_on_both_pages(dashboard: Dashboard) -> None:
    """Behind a word and no comma; the same words on the page of its cycle and on the page Witness."""
    reply = ", ".join(f"part{number:02} 1" for number in range(20))
    await dashboard.live(dashboard.life.cycle(raw=reply, raw_length=len(reply), raw_sha256=whole(reply).sha256))
    (mark,) = [one for one in chain(dashboard) if one.response == reply]

    cycle = parsed((await dashboard.client.get(f"/cycles/{CYCLES + 1}")).text)
    listed = [row[2] for row in cycle.one("section", aria_labelledby="marks-title").one("table").cells()]
    witnessed = [row[3] for row in (await page(dashboard)).one("section", id="marks").one("table").cells()]

    (words,) = [one for one in listed if one.startswith("part00")]
    assert words in witnessed
    assert re.fullmatch(r"(part\d\d 1, )+part\d\d 1…", words)
    assert mark.response.startswith(words[:-1])
    assert len(words) <= MARK_WORDS


async def test_a_whole_chain_is_verified_by_itself(dashboard: Dashboard, until: Callable[..., Awaitable[None]]) -> None:
    """Of how many marks and acts is said."""
    verdict = await found(dashboard, until)

    assert "verified" in verdict.text
    assert f"{len(chain(dashboard)):,} marks of {CYCLES} acts hold" in verdict.text


async def test_a_changed_mark_is_shown_loudly_with_its_place(
    dashboard: Dashboard, until: Callable[..., Awaitable[None]]
) -> None:
    """What is wrong, a link to the mark, and its row among the others."""
    with sqlite3.connect(dashboard.world.store.file) as file:
        packing.register(file)
        (body,) = file.execute("SELECT unpacked(body) FROM marks WHERE sequence = 40").fetchone()
        forged = bytes(body).replace(b'"response":"', b'"response":"forged ')
        file.execute("UPDATE marks SET body = ? WHERE sequence = 40", (forged,))

    verdict = await found(dashboard, until)
    near = await page(dashboard, "/witness?before=60")

    assert "The chain does not hold: 1 thing is wrong." in verdict.text
    assert verdict.one("ul", class_="problems").one("a")["href"].startswith(f"{dashboard.prefix}/witness/40?")
    assert [row.all("td")[0].text for row in near.all("tr", class_="broken")] == ["40"]


async def test_a_tail_that_was_cut_off_is_found(dashboard: Dashboard, until: Callable[..., Awaitable[None]]) -> None:
    """An act that was witnessed and has no mark any more is named; that is not a mark to come."""
    last = chain(dashboard)[-1].sequence
    with sqlite3.connect(dashboard.world.store.file) as file:
        file.execute("DELETE FROM marks WHERE sequence > ?", (last - 6,))
        stream = await dashboard.bus.state()
        file.executemany(
            "INSERT OR REPLACE INTO meta VALUES (?, ?)", [("position", stream.last), ("epoch", stream.epoch)]
        )
    await report_position(dashboard.bus, "witness", [ActionTaken], stream.last)

    verdict = await found(dashboard, until)

    assert "The chain does not hold" in verdict.text
    assert "has no mark" in verdict.text


async def test_an_act_that_was_recorded_and_taken_out_is_found(
    dashboard: Dashboard, until: Callable[..., Awaitable[None]]
) -> None:
    """With its marks, and with the store's position put before it."""
    before = await dashboard.bus.state()
    last = chain(dashboard)[-1].sequence
    recorded = await dashboard.live()
    act = recorded[-1].action_id
    with sqlite3.connect(dashboard.world.store.file) as file:
        file.execute("DELETE FROM marks WHERE sequence > ?", (last,))
        for table in ("acts", "scores", "contexts", "needs", "experiences", "actions"):
            file.execute(f"DELETE FROM {table} WHERE act = (SELECT act FROM actions WHERE action_id = ?)", (act,))
        file.execute("INSERT OR REPLACE INTO meta VALUES ('position', ?)", (before.last,))

    verdict = await found(dashboard, until)

    assert "acts were recorded, and the store lacks 1 of them" in verdict.text
    assert act in verdict.text


async def test_a_mark_is_shown_whole_with_its_links(dashboard: Dashboard) -> None:
    """All that its hash is taken over, a way to its cycle, to the mark that caused it, and to its neighbours."""
    mark = next(one for one in chain(dashboard) if one.links and one.sequence > 20)
    cause = next(one for one in chain(dashboard) if one.id == mark.links[0].source)

    shown = await page(dashboard, f"/witness/{mark.sequence}")

    links = {link["href"].partition("?")[0].removeprefix(dashboard.prefix) for link in shown.one("main").all("a")}
    assert {f"/witness/{n}" for n in (mark.sequence - 1, mark.sequence + 1, cause.sequence)} <= links
    assert any(re.fullmatch(r"/cycles/\d+", link) for link in links)
    for text in (mark.response, mark.hash, mark.previous, mark.content, mark.origin):
        assert " ".join(text.split()) in shown.text


async def test_a_mark_that_is_not_there_is_a_sentence(dashboard: Dashboard) -> None:
    """Whatever number is asked for."""
    for number in (100_000, 10**30):
        answer = await dashboard.client.get(f"/witness/{number}")
        assert answer.status_code == 404
        assert "There is no mark" in answer.text


async def test_new_marks_come_by_themselves(tab: Page, dashboard: Dashboard) -> None:
    """On the newest page; the button looks at them too."""
    await tab.goto("./witness")
    await expect(tab.locator("#check")).to_contain_text("acts hold")
    before = len(chain(dashboard))

    await dashboard.live()

    await expect(tab.locator("#marks tbody tr").first).not_to_contain_text(str(before - 1))
    await tab.click("#verify")
    await expect(tab.locator("#check")).to_contain_text(f"of {CYCLES + 1} acts hold")
