"""What the experience store can be asked: columns for charts, rows for lists, acts to score anew, removed cycles."""
