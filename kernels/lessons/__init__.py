"""The NumPy behind the Learn chapters, one file a chapter."""
