"""``python -m hgplvm``."""

from hgplvm.cli import main

if __name__ == "__main__":
    main()
