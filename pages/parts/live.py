"""The live run of this tab: begun, fed, stepped by a worker thread; the script thread only asks and draws."""

from __future__ import annotations
