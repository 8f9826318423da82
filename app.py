"""The app: page configuration and navigation. `streamlit run app.py`"""

from pathlib import Path

import streamlit as st

from viz.explore.first_visit import SIDEBAR, STATE
from viz.shared.link import remember_link, say_refused
from viz.shared.options import named_file

st.set_page_config(  # before the pages, whose icons the browser would ask a machine elsewhere for
    page_title="FlashAttention, played back",
    page_icon=Path(__file__).parent / "viz" / "assets" / "icon.svg",
    layout="wide",
)
page = st.navigation(
    [
        st.Page("viz/explore/page.py", title="Explore", icon=":material/play_circle:", default=True),
        st.Page("viz/learn/page.py", title="Learn", icon=":material/school:", url_path="learn"),
        st.Page("viz/measure/page.py", title="Measure", icon=":material/speed:", url_path="measure"),
        st.Page("viz/check/page.py", title="Check", icon=":material/fact_check:", url_path="check"),
        st.Page("viz/model/page.py", title="Your model", icon=":material/deployed_code:", url_path="model"),
        st.Page("viz/ranks/page.py", title="Several GPUs", icon=":material/hub:", url_path="ranks"),
        st.Page("viz/talk/page.py", title="Talk", icon=":material/slideshow:", url_path="talk"),
    ],
    position="hidden" if st.context.is_embedded else "top",
)
st.set_page_config(initial_sidebar_state="auto" if page.url_path else st.session_state.get(SIDEBAR, "auto"))
begins = page.url_path == "" and not st.query_params  # a link to a page leads to that page
st.session_state.setdefault(STATE, begins)
if begins and not st.session_state.get("has_begun"):
    st.session_state["has_begun"] = True
    if named_file("--talk"):
        st.switch_page("viz/talk/page.py", query_params={"name": "own"})
    if named_file("--kernel"):
        st.switch_page("viz/check/page.py")
remember_link(page.url_path)
page.run()
say_refused()
