"""The ``pixel-gather`` command, also as ``python -m pixel_gather_cli``."""

import signal

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C shows no traceback of an import; `main` answers it

from pixel_gather_cli.main import main  # these imports take up to 0.3 s

if __name__ == "__main__":
    main()
