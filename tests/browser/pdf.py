"""Reads what a test asks of a PDF by Chromium: its pages, and what each of them draws."""

import re
import zlib


def drawn_pages(pdf):
    """What each page draws, in order: the operators of its content and of the forms inside it."""
    found = re.finditer(rb"(\d+) 0 obj\s*(<<.*?>>)\s*(?:stream\r?\n(.*?)endstream\s*)?endobj", pdf, re.DOTALL)
    objects = {int(number): (head, stream) for number, head, stream in (match.groups() for match in found)}
    pages = [head for head, _ in objects.values() if re.search(rb"/Type /Page\b", head)]
    return [_drawn(objects, int(re.search(rb"/Contents (\d+) 0 R", head)[1]), head) for head in pages]


def _drawn(objects, number, head):
    described, content = objects[number]
    content = zlib.decompress(content) if b"/FlateDecode" in described else content
    forms = dict(re.findall(rb"/(X\d+) (\d+) 0 R", head))
    drawn = content.decode("latin-1")
    for name in re.findall(rb"/(X\d+) Do", content):
        inner, _ = objects[int(forms[name])]
        if b"/Subtype /Form" in inner:
            drawn += _drawn(objects, int(forms[name]), inner)
    return drawn


def counted(drawn):
    """(texts, filled or stroked shapes) of a page."""
    return len(re.findall(r"\bT[jJ]\b", drawn)), len(re.findall(r"(?m)^[fS]\*?$", drawn))
