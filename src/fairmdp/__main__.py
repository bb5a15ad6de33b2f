"""``python -m fairmdp``: the command line, where no script is on the path."""

from fairmdp.cli import main

if __name__ == "__main__":
    main()
