"""The capacity page: how many tokens and requests fit on a card, and what a data centre gets out of it."""

from pages.parts.guard import guard

guard()

from pages.parts import capacity_page  # noqa: E402  the guard comes first

capacity_page.show()
