"""Names scenes by the addresses of their files. Pure."""

import hashlib


def scene_id(href: str) -> str:
    """Return the file's name with a few digits of its address, as files of two folders may share a name.

    If nothing is left of the name without its ending, the name is that of the folder.
    """
    path = href.partition("?")[0] if href.startswith(("http:", "https:")) else href
    folders, _, name = path.rpartition("/")
    stem = name.rpartition(".")[0] if "." in name else name
    names = (each.strip("._- ") for each in (stem, *reversed(folders.split("/"))))
    return f"{next(filter(None, names), 'scene')}-{hashlib.blake2b(href.encode(), digest_size=4).hexdigest()}"
