"""`python -m stablemiss` is the command `stablemiss`."""

from stablemiss.cli import main

if __name__ == "__main__":
    main()
