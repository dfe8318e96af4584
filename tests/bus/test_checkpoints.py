"""The values of the bucket: what stands there already is read, what is written is read by others."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conch.bus import StreamState
from conch.bus.admit import admit_key
from conch.bus.checkpoints import (
    PARTITIONS,
    Checkpoint,
    LetterRecord,
    MemoryRecord,
    PartitionRecord,
    PositionRecord,
    StateRecord,
    TrimRecord,
    WorkerRecord,
    advance,
    before_key,
    before_seq,
    encode_state,
    keys_of,
    letter_key,
    memory_agent,
    memory_key,
    names_position,
    position_consumer,
    position_key,
    rewind,
    state_agent,
    state_key,
    worker_key,
    worker_name,
)
from conch.cycle.state.memory import AgentMemory
from conch.errors import ContractError

EPOCH = "40112cdf-9603-4bc8-80a6-388dfdf37cfc"
STREAM = StreamState(first=1, last=4, messages=4, bytes=400, epoch=EPOCH)
SHARED = (
    b'{"seq":3,"epoch":"40112cdf-9603-4bc8-80a6-388dfdf37cfc","version":"2","kinds":["action.taken"],"shares":{"0":[3,"w'
    b'-1.185aa45a"],"1":[3,"w-1.185aa45a"],"2":[3,"w-1.185aa45a"],"3":[3,"w-1.185aa45a"],"4":[3,"w-1.185aa45a"],"5":[3,"'
    b'w-1.185aa45a"],"6":[3,"w-1.185aa45a"],"7":[3,"w-1.185aa45a"],"8":[5,"w-2.b6e4e7f3"],"9":[5,"w-2.b6e4e7f3"],"10":[5'
    b',"w-2.b6e4e7f3"],"11":[5,"w-2.b6e4e7f3"],"12":[5,"w-2.b6e4e7f3"],"13":[5,"w-2.b6e4e7f3"],"14":[5,"w-2.b6e4e7f3"],"'
    b'15":[5,"w-2.b6e4e7f3"]},"recent":{"w-1.185aa45a":["id-1","id-2"],"w-2.b6e4e7f3":["id-9"],"":[]}}'
)
"""Written before this module was, as are the other values here: two workers share a consumer."""
ALONE = b'{"seq":7,"epoch":"40112cdf-9603-4bc8-80a6-388dfdf37cfc","version":"1","recent":["id-1","id-2"]}'
"""From before workers shared a consumer."""
ANNOUNCED = b'{"seq": 6, "epoch": "40112cdf-9603-4bc8-80a6-388dfdf37cfc", "kinds": ["action.taken"]}'
STATE = b'{"seq":4,"epoch":"40112cdf-9603-4bc8-80a6-388dfdf37cfc","state":{"cycles":[1,2]}}'
TRIM = b'{"before": 2, "epoch": "40112cdf-9603-4bc8-80a6-388dfdf37cfc"}'
WORKER = (
    b'{"consumers": ["count", "store"], "host": "vm", "pid": 21656, "beat": "46e1c269-517d-4e7f-bdc6-e7bcf1ece9a4"}'
)
MEMORY = (
    b'{"agentuid":"5b1e7c1e-6a50-4b6a-b7d9-2f0c7a0e8d11","epoch":"40112cdf-9603-4bc8-80a6-388dfdf37cfc","seq":5,"memory"'
    b':{"next_cycle":3,"thought":null,"grounded":null,"decided":null,"taken":null,"step_told":false,"goals":{},"episodes"'
    b':{},"known_goals":[],"waiting":[{"id":"m","text":"h\xc3\xa9","size":4}],"answered":[],"needs":{"rest":0.5},"senses"'
    b':{},"recent":[],"spent":[],"policy":null,"rewards":{},"lessons":[]}}'
)

KINDS = [
    (PositionRecord, SHARED),
    (PositionRecord, ANNOUNCED),
    (StateRecord, STATE),
    (TrimRecord, TRIM),
    (WorkerRecord, WORKER),
    (MemoryRecord[AgentMemory], MEMORY),
]
names = st.from_regex(r"[a-z0-9][a-z0-9-]{0,20}", fullmatch=True)
seqs = st.integers(0, 2**63)
ids = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), max_size=4).map(tuple)
partitions = st.builds(PartitionRecord, seqs, names)
values = st.recursive(st.none() | st.integers(-5, 5) | names, lambda some: st.lists(some, max_size=3))
positions = st.builds(
    PositionRecord,
    seq=seqs,
    epoch=st.uuids().map(str),
    version=st.none() | names,
    kinds=st.none() | ids,
    partitions=st.none()
    | st.fixed_dictionaries({n: st.builds(PartitionRecord, seqs, names) for n in range(PARTITIONS)}),
    recent=st.none() | st.dictionaries(names, ids, max_size=3),
)


def test_the_position_of_a_shared_consumer_is_read() -> None:
    """Each partition with its owner, and the ids by the worker that handled them."""
    found = PositionRecord.decode(SHARED)

    assert (found.seq, found.epoch, found.version, found.kinds) == (3, EPOCH, "2", ("action.taken",))
    assert found.partitions is not None
    assert found.partitions[7] == PartitionRecord(3, "w-1.185aa45a")
    assert found.recent == {"w-1.185aa45a": ("id-1", "id-2"), "w-2.b6e4e7f3": ("id-9",), "": ()}
    assert (found.owner_of(15), PositionRecord.decode(ANNOUNCED).owner_of(15)) == ("w-2.b6e4e7f3", None)


@pytest.mark.parametrize("value", [ALONE, ANNOUNCED])
def test_a_position_without_partitions_is_the_position_of_each(value: bytes) -> None:
    """None of them is owned; what the one worker handled is known to all."""
    found = PositionRecord.decode(value)

    assert found.whole == {number: PartitionRecord(found.seq, "") for number in range(PARTITIONS)}
    assert found.recent in ({"": ("id-1", "id-2")}, None)


def test_a_position_lacking_partitions_is_none_to_a_worker() -> None:
    """A worker would hand out agents whose position is not known."""
    short = PositionRecord(seq=1, epoch=EPOCH, partitions={0: PartitionRecord(1, "")})

    with pytest.raises(ContractError, match="15 of 16 partitions are missing"):
        short.whole  # noqa: B018


@pytest.mark.parametrize(("kind", "value"), KINDS)
def test_what_is_written_says_what_it_said_before(kind: type[Checkpoint], value: bytes) -> None:
    """Workers of both versions share a bucket: names and shapes in the JSON are the same."""
    assert json.loads(kind.decode(value).encode()) == json.loads(value)


@given(positions)
def test_a_position_that_was_written_is_read(position: PositionRecord) -> None:
    """Whatever stands in it."""
    assert PositionRecord.decode(position.encode()) == position


@given(seqs, names, ids, st.recursive(st.none() | st.integers(-5, 5) | names, lambda some: st.lists(some, max_size=3)))
def test_every_other_record_that_was_written_is_read(
    seq: int, name: str, several: tuple[str, ...], state: object
) -> None:
    """A state, a memory, a heartbeat, the trimmed sequence, what became of a letter."""
    for record in (
        StateRecord(seq=seq, epoch=name, state=state),
        TrimRecord(before=seq, epoch=name),
        WorkerRecord(consumers=several, host=name, pid=seq, beat=name),
    ):
        assert type(record).decode(record.encode()) == record
    memory = MemoryRecord(agentuid=name, epoch=name, seq=seq, memory=AgentMemory(next_cycle=seq))
    assert MemoryRecord[AgentMemory].decode(memory.encode()).memory == memory.memory
    assert LetterRecord("dropped").encode() == b'"dropped"'


def test_a_state_becomes_json_once_and_reads_as_its_record() -> None:
    """The bytes are the same as before."""
    assert encode_state(TrimRecord(before=1, epoch="é"), 4, 'a"b') == (
        b'{"seq":4,"epoch":"a\\"b","state":{"before":1,"epoch":"\xc3\xa9"}}'
    )
    assert StateRecord.decode(STATE).state == {"cycles": [1, 2]}


@pytest.mark.parametrize(("kind", "value"), KINDS)
def test_a_field_of_a_newer_version_is_ignored(kind: type[Checkpoint], value: bytes) -> None:
    """Workers of different versions share a bucket."""
    assert kind.decode(value[:-1] + b',"newer":{"a":[1]}}') == kind.decode(value)


@pytest.mark.parametrize(
    "kind", [PositionRecord, StateRecord, TrimRecord, WorkerRecord, MemoryRecord[AgentMemory], Checkpoint]
)
@pytest.mark.parametrize(
    "value", [b"", b"garbage", b"[]", b"7", b"{}", b"\xff", b"[" * 100_000, b'{"seq":-1,"epoch":"x"}']
)
def test_garbage_is_refused_in_one_sentence(kind: type[Checkpoint], value: bytes) -> None:
    """Whatever stands there, without a line break and without the value."""
    with pytest.raises(ContractError) as refusal:
        kind.decode(value)

    assert 0 < len(str(refusal.value)) < 200
    assert "\n" not in str(refusal.value)


@given(names, names, seqs)
def test_each_key_is_one_of_the_bucket_and_says_what_it_is_for(consumer: str, agent: str, seq: int) -> None:
    """Parsers give back what the key was made of, and nothing for another kind of key."""
    keys = [
        position_key(consumer), state_key(consumer, agent), before_key(consumer, agent, seq), memory_key(agent),
        worker_key(agent), letter_key(agent),
    ]  # fmt: skip

    for key in keys:
        admit_key(key)
    assert [position_consumer(key) for key in keys] == [consumer, None, None, None, None, None]
    assert [state_agent(key, consumer) for key in keys] == [None, agent, None, None, None, None]
    assert [before_seq(key, consumer, agent) for key in keys] == [None, None, seq, None, None, None]
    assert [memory_agent(key) for key in keys] == [None, None, None, agent, None, None]
    assert [worker_name(key) for key in keys] == [None, None, None, None, agent, None]
    assert [names_position(key) for key in keys] == [True, True, False, True, False, False]


def test_a_consumer_owns_its_own_keys_alone() -> None:
    """One whose name begins alike, and an agent of that name, are others."""
    own = [position_key("joy"), state_key("joy", "echo"), before_key("joy", "echo", 3)]
    others = [position_key("joyful"), state_key("joyful", "joy"), memory_key("joy"), worker_key("joy")]

    assert keys_of("joy", own + others, letters=True) == own
    assert keys_of("joy", own + others, letters=False) == own[:2]


@given(st.text())
def test_any_id_of_a_letter_makes_a_key(letter: str) -> None:
    """Any publisher chooses one."""
    try:
        letter.encode()
    except UnicodeEncodeError:
        return  # no event can have it
    admit_key(letter_key(letter))


def test_a_position_is_one_of_its_own_stream() -> None:
    """Beyond the end it is the end; of another stream, it is the start."""
    assert Checkpoint(seq=3, epoch=EPOCH).position(STREAM) == 3
    assert Checkpoint(seq=9, epoch=EPOCH).position(STREAM) == 4
    assert Checkpoint(seq=3, epoch="older").position(STREAM) == 0


def test_rewinding_takes_each_position_back_and_leaves_the_rest() -> None:
    """Partitions beyond the end, the position of a memory, what a newer version wrote beside it."""
    rewound = rewind(SHARED, STREAM)
    assert rewound is not None
    found = PositionRecord.decode(rewound)
    assert found.partitions is not None
    assert (found.partitions[0].seq, found.partitions[15]) == (3, PartitionRecord(4, "w-2.b6e4e7f3"))
    assert found.recent == PositionRecord.decode(SHARED).recent
    assert rewind(rewound, STREAM) is None

    newer = rewind(MEMORY[:-1] + b',"newer":1}', STREAM)
    assert newer is not None
    assert json.loads(newer) == json.loads(MEMORY) | {"seq": 4, "newer": 1}


def test_rewinding_to_a_stream_made_anew_begins_at_its_start() -> None:
    """Its sequences mean something else."""
    rewound = rewind(STATE, replace(STREAM, epoch="anew"))

    assert rewound is not None
    assert json.loads(rewound) == {"seq": 0, "epoch": "anew", "state": {"cycles": [1, 2]}}


@pytest.mark.parametrize("value", [b"", b"garbage", b"[]", b"7", b"[" * 100_000, STATE, b'{"seq":"many","epoch":"x"}'])
def test_rewinding_leaves_what_is_in_order_or_cannot_be_read(value: bytes) -> None:
    """The reader of the value says what is wrong with it."""
    assert rewind(value, STREAM) is None


def test_advancing_gives_up_what_is_not_read() -> None:
    """The position becomes the end of the stream; everything else stays, and garbage is refused."""
    assert json.loads(advance(MEMORY, STREAM)) == json.loads(MEMORY) | {"seq": 4}
    with pytest.raises(ContractError):
        advance(b"[]", STREAM)
