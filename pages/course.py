"""The course page: the path of lessons in the order of the text, each a click away."""

from pages.parts.guard import guard

guard()

from pages.parts.lessons import path  # noqa: E402  the guard comes first

path.show()
