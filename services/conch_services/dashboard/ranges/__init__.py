"""The range of cycles that pages show: one parameter of the address, `?range=`, that goes with every link."""
