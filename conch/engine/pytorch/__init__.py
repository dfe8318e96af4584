"""The engine of the mind `transformers`: torch, transformers and PEFT in a process of their own, behind the front."""
