"""``python -m core …``: models, run, verify, record, compare, bench."""

import sys

from core.cli import main

if __name__ == "__main__":
    sys.exit(main())
