"""The checks of a set of task folders before it is published."""
