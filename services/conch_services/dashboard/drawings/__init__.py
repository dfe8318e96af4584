"""What pages draw from figures: numbers, the waterfall of a total, the lanes of goals."""
