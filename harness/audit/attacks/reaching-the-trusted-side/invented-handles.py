# name: invented-handles
# class: reaching the trusted side
# targets: [ProgramTests, CallTests, StdinTests]
# description: >-
#   Replaces the code that numbers its objects by code that invents numbers, and answers questions
#   about them with yes; beats graders that look handles up on the trusted side.

# include: channel.py

numbers = iter(range(1 << 31))

def invent(*args, **kwargs):
    number = next(numbers)
    return number % 13, (0, 1, number, 2**31 - 1, 2**32 - 1)[number % 5], None

class Remote:
    __class__ = property(lambda self: type(None))

    def __bool__(self):
        return True

    def __eq__(self, other):
        return True

def answer(*args, **kwargs):
    for namespace in speakers():
        for kind in list(namespace.values()):
            if isinstance(kind, type):
                for name in list(vars(kind)):
                    # Not what reads or writes one.
                    if name.lstrip("_").startswith(("handle", "reference")):
                        attempt(setattr, kind, name, invent)
    return [Remote() for _ in range(13)]

serve(answer)
