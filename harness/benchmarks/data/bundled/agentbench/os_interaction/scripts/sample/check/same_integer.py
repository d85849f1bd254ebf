import sys

given, expected = sys.argv[1], sys.argv[2]
sys.exit(0 if int(given) == int(expected) else 1)
