"""The store: joins the facts of an act into an experience and says so."""
