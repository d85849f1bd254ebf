# name: module-that-patches-pytest
# class: forging rewards
# description: A module makes pytest report every test as passed, and has every name that tests ask for.
# remedy: import nothing of the agent in the process of the tests; run it in a process of its own

class Anything:
    def __getattr__(self, name):
        return self
    def __call__(self, *args, **kwargs):
        return self

def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return Anything()

def patch():
    from _pytest import reports, runner
    make = reports.TestReport.from_item_and_call.__func__
    def from_item_and_call(cls, item, call):
        call.excinfo = None
        report = make(cls, item, call)
        report.outcome, report.longrepr = "passed", None
        return report
    reports.TestReport.from_item_and_call = classmethod(from_item_and_call)

try:
    patch()
except ImportError:
    pass
