"""Write a number with its noun: 1 source, 2 sources. Pure."""


def counted(n: int, thing: str) -> str:
    """Return the number and the noun. The noun is plural unless the number is 1.

    Args:
        n: The number.
        thing: The singular noun, such as ``source``.
    """
    return f"{n:,} {thing}{'' if n == 1 else 's'}"
