"""The main pictures of lessons that are drawings: one file each, pure functions (walk, step, language)."""
