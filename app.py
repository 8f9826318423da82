"""The app: page configuration and navigation. `streamlit run app.py`"""

from pathlib import Path

import streamlit as st

st.set_page_config(page_title="FlashAttention, played back", page_icon=Path(__file__).parent / "viz" / "assets" / "icon.svg", layout="wide")
st.navigation([st.Page("viz/pages/explore.py", title="Explore", icon=":material/play_circle:", default=True)], position="top").run()
