"""The app: page configuration and navigation. `streamlit run app.py`"""

from pathlib import Path

import streamlit as st

st.set_page_config(
    page_title="FlashAttention, played back",
    page_icon=Path(__file__).parent / "viz" / "assets" / "icon.svg",
    layout="wide",
)
st.navigation(
    [
        st.Page("viz/explore/page.py", title="Explore", icon=":material/play_circle:", default=True),
        st.Page("viz/learn/page.py", title="Learn", icon=":material/school:", url_path="learn"),
        st.Page("viz/measure/page.py", title="Measure", icon=":material/speed:", url_path="measure"),
        st.Page("viz/check/page.py", title="Check", icon=":material/fact_check:", url_path="check"),
    ],
    position="top",
).run()
