"""`python -m canaryd` is the command line."""

from canaryd.cli import main

if __name__ == "__main__":
    main()
