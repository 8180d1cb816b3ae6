"""The app: a run of this file draws a page for one tab; the server, once, imports it before anybody comes."""

import streamlit as st

from pages.parts import ahead, shell

if __name__ == "__main__":
    shell.show()
else:
    app = st.App(__file__, lifespan=ahead.lifespan)
