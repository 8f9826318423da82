"""The Learn page: `page.py`, the table of chapters in `chapters.py`, what they share, and a folder each."""
