"""The runtime of one consumer: read, handle, publish, store the position; in that order, so that a crash repeats work
and never loses it.

`loop` reads a batch of events from the shared subscription and hands it to one strategy:

* `inline`, the default, handles each event as it comes and publishes what follows from the batch in one piece;
* `queues` takes what `inline` cannot finish at once: an event that fails or takes its time, and the later events of the
  same agent, wait in that agent's queue;
* `batches` hands the whole batch to a consumer that asked for batches (`batch=`);
* `concurrent` begins with the events of a batch side by side (`at_once=`).

All strategies use the same parts. `context` holds what they share: the consumer, its output, its position, its agents.
`attempts` handles one event to its end: done, a duplicate, or a dead letter. `in_flight` publishes handled batches and
knows which are not yet on the stream. `ownership` checks that no other copy of the consumer has taken over before
anything is published. `snapshots` stores states and position, the position last and never ahead of a publication.
`replay` handles a dead letter once more, on request.

The loop reads no more while too many events wait or too many batches are in flight: the rest waits on the stream. When
another copy has written a state in between, the loop discards what it holds and begins again from what is stored.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
