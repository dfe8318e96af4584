"""The training child: reads a snapshot, trains a LoRA adapter, writes it. Imports torch; its parent does not."""
