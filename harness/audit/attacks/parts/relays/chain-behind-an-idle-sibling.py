# description: >-
#   Passes its work on to a chain of children, while an idle sibling claims to wait for a processor
#   all the time; beats limits that credit a program with the time that any of its processes
#   waits.

def burn(seconds):
    idlers = []
    for _ in range(os.cpu_count() or 1):
        idlers.append(os.fork())
        if idlers[-1] == 0:
            attempt(os.sched_setscheduler, 0, os.SCHED_IDLE, os.sched_param(0))
            attempt(os.nice, 19)
            spin(600)
            os._exit(0)
    read_end, write_end = os.pipe()
    if os.fork() == 0:
        for _ in legs(seconds):
            spin()
            if os.fork():
                os._exit(0)
        os._exit(0)
    os.close(write_end)
    wait_for_end(read_end)
    for idler in idlers:
        os.kill(idler, signal.SIGKILL)
