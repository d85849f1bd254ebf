# name: module-equal-to-everything
# class: forging rewards
# description: A module whose functions return an object that equals every expected answer.
# remedy: >-
#   compare plain values by their exact type: type(found) is type(expected) and found == expected, or compare
#   what another process has printed

class Anything(int):
    def _itself(self, *args, **kwargs):
        return self
    def _true(self, *args, **kwargs):
        return True
    __call__ = __getattr__ = __getitem__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __abs__ = _itself
    __round__ = __truediv__ = __neg__ = _itself
    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __bool__ = _true
    __hash__ = int.__hash__
    def __ne__(self, other):
        return False
    def __iter__(self):
        return iter(())

def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return Anything()
