"""stub"""


def write_report(c, p, *, frontier=None, command=None):
    open(p, "w").write("x")
