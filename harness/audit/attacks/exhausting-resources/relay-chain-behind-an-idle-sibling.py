# name: relay-chain-behind-an-idle-sibling
# class: exhausting resources
# targets: [ProgramTests, CallTests, StdinTests]
# # An audit shows only that this is no way to a pass. A test measures the time that each relay buys.
# description: >-
#   Passes its work on to a chain of children, while an idle sibling claims to wait for a processor
#   all the time; beats limits that credit a program with the time that any of its processes
#   waits.

# include: relay.py

# include: relays/chain-behind-an-idle-sibling.py

def answer(*args, **kwargs):
    burn(3)
    return WRONG

serve(answer)
