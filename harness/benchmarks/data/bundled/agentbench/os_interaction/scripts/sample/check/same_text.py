import sys

given, expected = (text.strip() for text in sys.argv[1:3])
sys.exit(0 if given == expected and expected else 1)
