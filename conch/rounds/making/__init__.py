"""Makes an adapter: when, by which method, on what data, in which process."""
