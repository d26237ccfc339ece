"""The statistics of canaryd: pure functions of cells and of registered numbers."""
