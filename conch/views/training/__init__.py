"""Views of data sets, reviews and training: rounds, gates, generations, models."""
