"""Reading of untrusted or damaged files. A read never hangs, has a bound, and is parsed strictly."""
