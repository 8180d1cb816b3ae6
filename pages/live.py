"""The main page: a trace, recorded or live, one step at a time."""

from pages.parts.guard import guard

guard()

from pages.parts import main_page  # noqa: E402  the guard comes first

main_page.show()
