"""The NumPy of the Learn chapters, one file per chapter."""
