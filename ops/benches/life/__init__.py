"""What a long life of an agent costs, in parts: `ops/bench life --part NAME`."""
