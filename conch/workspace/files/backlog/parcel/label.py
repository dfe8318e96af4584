"""What is printed on it."""


def label(name, street, town):
    """Three lines."""
    return f"{name}\n{town}\n{street}"
