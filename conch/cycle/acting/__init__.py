"""Which adapter decides: the pointer is read, the adapter is proven, and what cannot be proven does not act."""
