"""The page of the two sharing rules: the same requests under both, step by step, side by side."""

from pages.parts.guard import guard

guard()

from pages.parts import sharing_page  # noqa: E402  the guard comes first

sharing_page.show()
