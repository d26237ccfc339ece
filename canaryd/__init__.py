"""canaryd: did the model behind this name change, or was I unlucky?"""

__version__ = "0.1.0"
