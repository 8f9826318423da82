"""A static site of what was recorded: `python -m viz.site OUT`."""
