"""Only under Triton's interpreter: test_interpreter.py starts these tests in a process of their own."""

import os

collect_ignore_glob = [] if os.environ.get("TRITON_INTERPRET") == "1" else ["test_*.py"]
