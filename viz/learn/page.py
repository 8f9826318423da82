"""Learn: short chapters, one question each, computed from the reader's own numbers."""

from pathlib import Path

import streamlit as st

from viz.learn.chapters import CHAPTERS
from viz.learn.controls import PART_SHOWN, PARTS_LEFT, put_in_url, start_at_top, switch
from viz.shared import runs, theme
from viz.shared.formats import plain
from viz.shared.glossary import glossary_list, glossary_style, say
from viz.shared.layout import colors, header
from viz.shared.link import takes_from_link


def onward(place: int) -> None:
    """Buttons to the chapter before and after the one at `place`; the way on is the primary button.

    While the chapter has parts left, its own button to the next part is.
    """
    ends = not st.session_state.pop(PARTS_LEFT, False)
    with st.container(horizontal=True, key="onward"):
        for step, words, icon in ((-1, "Back", "arrow_back"), (1, "Next", "arrow_forward")):
            if 0 <= place + step < len(CHAPTERS):
                other = CHAPTERS[place + step]
                question = f". {other.question}" if step > 0 else ""
                st.button(
                    f"{words}: {place + step + 1} {other.title}{question}",
                    key=f"chapter_{words}",
                    icon=f":material/{icon}:",
                    type="primary" if step > 0 and ends else "secondary",
                    on_click=put_in_url,
                    args=("chapter", other.slug, CHAPTERS[0].slug),
                )


CSS = Path(__file__).with_name("learn.css")
takes_from_link("chapter", *(f"{chapter.slug}_" for chapter in CHAPTERS))
header("Learn", runs.run_store())
glossary_style(colors())
st.html(f"<style>{CSS.read_text('utf-8')}</style>")
slugs = [chapter.slug for chapter in CHAPTERS]
names = {chapter.slug: f"{number} {chapter.title}" for number, chapter in enumerate(CHAPTERS, 1)}
with st.container(key="chapters"):
    chosen = switch("Chapter", slugs, "chapter", shown=names.__getitem__)
asked = st.query_params.get("chapter", chosen)
if asked not in slugs:
    expected = f"expected one of {', '.join(slugs)}"
    st.error(f"There is no chapter '{plain(asked[:60])}'; {expected}.", icon=":material/error:")
place = slugs.index(chosen)
top = st.container()  # before the chapter, which may rerun a part of itself
st.subheader(CHAPTERS[place].question, anchor=False)
if CHAPTERS[place].idea:
    say(f"**In short:** {CHAPTERS[place].idea}")
CHAPTERS[place].show()
with top:
    start_at_top(f"{chosen}/{st.session_state.pop(PART_SHOWN, '')}")
onward(place)
glossary_list()
st.caption(theme.ABOUT_NUMBERS)
