"""Numbers of things as people say them: 1 source, 2 sources. Pure."""


def counted(n: int, thing: str) -> str:
    """Return the number and the thing, in the plural where it is not one.

    Args:
        n: How many.
        thing: One of them, such as ``source``.
    """
    return f"{n:,} {thing}{'' if n == 1 else 's'}"
