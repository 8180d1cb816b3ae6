"""The compare page: one trace under every strategy that one ticks, step by step."""

from pages.parts.guard import guard

guard()

from pages.parts import compare_page  # noqa: E402  the guard comes first

compare_page.show()
