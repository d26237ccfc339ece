"""Settings of every test: hypothesis draws the same examples everywhere and measures no time."""

from hypothesis import settings

settings.register_profile("canaryd", deadline=None, derandomize=True)
settings.load_profile("canaryd")
