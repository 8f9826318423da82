"""The Learn page: `page.py`, the table of chapters in `chapters.py`, and a module for each chapter."""
