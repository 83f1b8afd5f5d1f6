"""python -m riskfront: the command line where the command itself is not on the path."""

from riskfront._cli import main

if __name__ == "__main__":
    main()
