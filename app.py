"""Navigation, theme, language and the shared side bar; the pages are files in pages/."""

from pages.parts import shell

shell.show()
