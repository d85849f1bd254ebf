"""Files that somebody else wrote, or damaged: nothing hangs, all is bounded and parsed strictly."""
