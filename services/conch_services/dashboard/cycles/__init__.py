"""What an address says of a list of cycles, and the acts most like one."""
