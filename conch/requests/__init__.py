"""What people do to an agent from outside: tell it something, give it goals, score what it did, settle its letters."""
