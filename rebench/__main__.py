"""``python -m rebench``: the command line without the console script."""

import sys

from rebench.cli import main

if __name__ == "__main__":
    sys.exit(main())
