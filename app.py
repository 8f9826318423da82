"""The app: page configuration and navigation. `streamlit run app.py`"""

from pathlib import Path

import streamlit as st

st.set_page_config(page_title="FlashAttention, played back", page_icon=Path(__file__).parent / "viz" / "assets" / "icon.svg", layout="wide")
st.navigation(
    [
        st.Page("viz/pages/explore.py", title="Explore", icon=":material/play_circle:", default=True),
        st.Page("viz/pages/learn.py", title="Learn", icon=":material/school:", url_path="learn"),
        st.Page("viz/pages/measure.py", title="Measure", icon=":material/speed:", url_path="measure"),
        st.Page("viz/pages/check.py", title="Check", icon=":material/fact_check:", url_path="check"),
    ],
    position="top",
).run()
