"""Other weights on the acts that are recorded: what their totals would be, and to put those weights in force."""
