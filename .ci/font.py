"""Makes the font of exported pages anew: `pip install fonttools brotli && python .ci/font.py`.

Of the font that Streamlit brings: the letters that the player writes, in the weights that it uses. A page on
disk then looks as the app does on every machine. Its licence reserves its name, so the part has another one.
"""

from pathlib import Path

import streamlit
from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont
from fontTools.varLib.instancer import instantiateVariableFont

LETTERS = "".join(map(chr, range(32, 127))) + "·×−–…“”‘’√∞≤≥≈≠αβσΣΔ∂→←↑↓⁻¹²³ᵀ°µ÷½±"
SOURCE = next(Path(streamlit.__file__).parent.glob("static/static/media/SourceSansVF-Upright*.woff2"))
FILE = Path(__file__).parents[1] / "viz" / "player" / "css" / "stage_font.woff2"

font = TTFont(SOURCE)
subsetter = Subsetter(Options(layout_features=["kern", "tnum"], name_IDs=[]))
subsetter.populate(text=LETTERS)
subsetter.subset(font)
font = instantiateVariableFont(font, {"wght": (400, 700)})
font.flavor = "woff2"
font.save(FILE)
print(f"{FILE}: {FILE.stat().st_size:,} bytes")
