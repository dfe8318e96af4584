"""The bus measured: a file a measurement, the peers beside it, all on one server in one run."""
