"""The lesson page: one lesson, one stop, from its address (?lesson=…&step=…&lang=…)."""

from pages.parts.guard import guard

guard()

from pages.parts.lessons import screen  # noqa: E402  the guard comes first

screen.show()
