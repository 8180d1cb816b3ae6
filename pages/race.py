"""The race page: one workload for real under every strategy that one ticks, under one budget of bytes."""

from pages.parts.guard import guard

guard()

from pages.parts import race_page  # noqa: E402  the guard comes first

race_page.show()
