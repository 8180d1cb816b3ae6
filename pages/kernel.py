"""The kernel page: the decode kernel on a recorded or live pool, tile by tile, and what it costs."""

from pages.parts.guard import guard

guard()

from pages.parts import kernel_page  # noqa: E402  the guard comes first

kernel_page.show()
