"""The long memory: what a write and a recall cost, how often the right memory is recalled, a month of cycles.

    ops/bench memory [--memories 1000000] [--cycles 260000] [--seed 1] [--words] [--quick]

The corpus is made by this script: facts `somebody did a thing at a place`, each triple of person, deed and thing once,
among filler of a vocabulary whose words are as unevenly frequent as those of a language. A question names person, deed
and thing of a fact: by the fact's own words, one of them by a synonym, or all three. Its answer is that fact alone;
recall@5 is the share of questions whose answer is among the five memories recalled first.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import islice, product
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from conch.memory import (
    Embedder,
    LongTermMemory,
    Memory,
    MemoryKind,
    SourceAct,
    default_embedder,
    importance_of,
    memory_id,
)

PEOPLE = ("doctor/physician", "boy/lad", "woman/lady", "farmer/peasant", "thief/robber", "cook/chef", "king/monarch",
          "soldier/warrior", "sailor/mariner", "teacher/instructor", "lawyer/attorney", "child/kid", "author/writer",
          "guest/visitor", "enemy/foe", "friend/companion", "judge/magistrate", "priest/clergyman", "merchant/trader",
          "drunk/alcoholic")  # fmt: skip
DEEDS = ("bought/purchased", "repaired/fixed", "stole/robbed", "began/started", "hid/concealed", "found/discovered",
         "destroyed/wrecked", "built/constructed", "sold/vended", "carried/transported", "cleaned/washed",
         "painted/coloured", "gathered/collected", "lost/misplaced", "requested/demanded", "praised/admired",
         "examined/inspected", "promised/pledged", "shortened/abridged", "copied/duplicated")  # fmt: skip
THINGS = ("car/automobile", "ship/vessel", "house/dwelling", "sofa/couch", "stone/rock", "picture/image", "bag/sack",
          "road/street", "shop/store", "gift/present", "coat/jacket", "forest/woods", "illness/disease", "film/movie",
          "meal/dinner", "story/tale", "error/mistake", "money/cash", "lamp/lantern", "cup/mug")  # fmt: skip
PLACES = ("harbour", "market", "bridge", "tower", "garden", "valley", "island", "station", "castle", "beach")
WORDS = 20_000
"""Words of the filler's vocabulary; the n-th is drawn with a weight of 1 / n (Zipf)."""
HOUR = 3600.0
CYCLE_SECONDS = 10.0
"""Of fake time: 260,000 cycles are 30 days."""
QUESTIONS = 300
REPLACED = {"the fact's own words": 0, "one of its three words a synonym": 1, "all three words synonyms": 3}
"""Questions by how many words are replaced."""
BATCH = 250
RECALLED = 5


class Fact(NamedTuple):
    """A fact by the places of its words in the tables, and its memory."""

    person: int
    deed: int
    thing: int
    memory: Memory


def made(number: int, kind: MemoryKind, text: str, at: float) -> Memory:
    """The memory of a numbered act."""
    event = str(UUID(int=number))
    return Memory(memory_id(event, kind), kind, text, importance_of(kind), at, SourceAct("echo", event, number))


def facts(draw: random.Random, count: int) -> list[Fact]:
    """Facts with different triples, `count` at most."""
    triples = list(product(range(len(PEOPLE)), range(len(DEEDS)), range(len(THINGS))))
    found = []
    for number, (person, deed, thing) in enumerate(draw.sample(triples, min(count, len(triples)))):
        words = (table[place].split("/")[0] for table, place in ((PEOPLE, person), (DEEDS, deed), (THINGS, thing)))
        who, did, what = words
        text = f"The {who} {did} the {what} at the {draw.choice(PLACES)}"
        found.append(Fact(person, deed, thing, made(number, "note", text, draw.random() * 720 * HOUR)))
    return found


def filler(draw: random.Random) -> Iterator[str]:
    """Lines of 12 to 30 words, without an end."""
    vocabulary = ["".join(draw.choices("bcdfglmnprstv", k=2)) + f"{number:x}o" for number in range(WORDS)]
    weights = [0.0]
    for number in range(WORDS):
        weights.append(weights[-1] + 1 / (number + 1))
    del weights[0]
    while True:
        yield " ".join(draw.choices(vocabulary, cum_weights=weights, k=draw.randint(12, 30)))


def questions(draw: random.Random, some: Sequence[Fact], synonyms: int) -> list[tuple[str, str]]:
    """(question, id of its answer), with as many words replaced by a synonym."""
    asked = []
    for fact in draw.sample(list(some), min(QUESTIONS, len(some))):
        replaced = set(draw.sample(range(3), synonyms))
        tables = ((PEOPLE, fact.person), (DEEDS, fact.deed), (THINGS, fact.thing))
        who, did, what = (table[place].split("/")[n in replaced] for n, (table, place) in enumerate(tables))
        asked.append((f"Where is it that the {who} {did} the {what}?", fact.memory.id))
    return asked


def filled(store: LongTermMemory, draw: random.Random, some: Sequence[Fact], count: int, each: int) -> float:
    """Fill the store up to `count` memories, `each` in a transaction; seconds of processor time for each memory."""
    lines = filler(draw)
    began = time.process_time()
    for place in range(0, len(some), each):
        store.add(fact.memory for fact in some[place : place + each])
    numbers = iter(range(1_000_000_000, 1_000_000_000 + count - len(some)))
    while batch := list(islice(numbers, each)):
        store.add(made(n, "episode", next(lines), draw.random() * 720 * HOUR) for n in batch)
    return (time.process_time() - began) / count


def asked(store: LongTermMemory, some: Sequence[tuple[str, str]]) -> tuple[float, list[float]]:
    """(recall@5, seconds of each recall)."""
    right, times = 0, []
    for question, answer in some:
        began = time.perf_counter()
        found = store.recall(question, RECALLED, now=721 * HOUR)
        times.append(time.perf_counter() - began)
        right += any(one.memory.id == answer for one in found)
    return right / len(some), times


def shown(seconds: Sequence[float]) -> str:
    ordered = sorted(seconds)
    return f"p50 {ordered[len(ordered) // 2] * 1e3:.2f} ms, p99 {ordered[int(len(ordered) * 0.99)] * 1e3:.2f} ms"


def corpus(folder: Path, count: int, seed: int, embedder: Embedder | None) -> None:
    """Recall over `count` memories: by words alone, and by sense too with an embedder."""
    draw = random.Random(seed)
    some, file = facts(draw, min(4000, count // 2)), folder / "corpus.db"
    writer = LongTermMemory(file, most=10 * count, most_bytes=1 << 40, embedder=embedder)
    each = filled(writer, draw, some, count, BATCH if embedder is not None else 20 * BATCH)
    writer.close()
    size = sum(part.stat().st_size for part in folder.glob("corpus.db*"))
    how = "without embeddings" if embedder is None else "with embeddings"
    print(f"{count} memories {how}: {each * 1e6:.0f} µs CPU and {size / count:.0f} bytes of file each", flush=True)
    lines = filler(draw)
    cues = [(" ".join(next(lines).split()[:12]), "") for _ in range(QUESTIONS)]
    sets = [(what, questions(draw, some, synonyms)) for what, synonyms in REPLACED.items()]
    for name, used in {"words": None, "words and sense": embedder}.items():
        if name != "words" and used is None:
            continue
        store = LongTermMemory(file, most=10 * count, most_bytes=1 << 40, embedder=used)
        began = time.perf_counter()
        store.recall("first", RECALLED, now=0)
        print(f"by {name}: the first recall after the start {(time.perf_counter() - began) * 1e3:.0f} ms")
        print(f"  12 words of a filler's line: {shown(asked(store, cues)[1])}")
        for what, some_questions in sets:
            right, times = asked(store, some_questions)
            print(f"  {what}: recall@{RECALLED} {right:.2f}, {shown(times)}", flush=True)
        store.close()


def month(folder: Path, cycles: int, seed: int) -> None:
    """A life of so many cycles with the default bounds: an episode each, at times a note, a fact, a lesson."""
    draw = random.Random(seed)
    lines, some = filler(draw), facts(draw, 4000)
    store = LongTermMemory(folder / "month.db")
    pending: list[Memory] = []
    processor, first, last = 0.0, list[float](), list[float]()
    for cycle in range(cycles):
        at = cycle * CYCLE_SECONDS
        pending.append(made(cycle, "episode", next(lines), at))
        if cycle % 5 == 0:
            pending.append(made(cycle, "fact", f"file{draw.randrange(300)}.md is a file in the workspace", at))
        if cycle % 20 == 0:
            pending.append(made(cycle, "note", draw.choice(some).memory.text, at))
        if cycle % 10 == 0:
            pending.append(made(cycle, "lesson", next(lines), at))
        began = time.process_time()
        if len(pending) >= 32:
            store.add(pending)
            pending.clear()
        if (cycle + 1) % 100 == 0:
            store.consolidate(cycle)
        processor += time.process_time() - began
        if cycle % 100 == 99:
            times = first if cycle < cycles // 10 else last if cycle >= cycles - cycles // 10 else None
            if times is not None:
                began = time.perf_counter()
                store.recall(" ".join(next(lines).split()[:12]), RECALLED, now=at)
                times.append(time.perf_counter() - began)
    size = sum(file.stat().st_size for file in folder.glob("month.db*"))
    print(
        f"{cycles} cycles of {CYCLE_SECONDS:.0f} s: {len(store)} memories, {store.text_bytes / 2**20:.1f} MiB of text, "
        f"{size / 2**20:.1f} MiB of files; {processor / cycles * 1e6:.0f} µs CPU a cycle to write and consolidate"
    )
    print(f"  recall in the first tenth {shown(first)}, in the last tenth {shown(last)}")
    store.close()


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=1_000_000, help="of the corpus; 0 leaves it out")
    parser.add_argument("--cycles", type=int, default=260_000, help="of the life; 0 leaves it out")
    parser.add_argument("--words", action="store_true", help="by words alone: without embeddings")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="seconds: whether it works, no figures to quote")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        memories, cycles = (4_000, 2_000) if args.quick else (args.memories, args.cycles)
        if memories:
            corpus(Path(folder), memories, args.seed, None if args.words else default_embedder())
        if cycles:
            month(Path(folder), cycles, args.seed)


if __name__ == "__main__":
    main()
