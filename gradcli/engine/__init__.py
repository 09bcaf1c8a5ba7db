"""A graph of machine operations becomes an immutable program (`program`), run over blocks of rows (`execute`)."""
