"""The guest's command, environment, folders and privileges in a sandbox, the same for all backends."""

from __future__ import annotations

# PID 1, which root starts in the folder "/". Not -I, which would make the interpreter ignore PYTHONHASHSEED.
# -S and -s keep out the same folders.
GUEST_COMMAND = (
    "/usr/bin/python3",
    "-S",
    "-s",
    "-B",
    "-c",
    "import gc, sys; gc.disable(); sys.path[0] = '/opt/harness'; "
    "from harness.sandbox.guest.main import main; main()",
)
GUEST_FOLDER = "/opt/harness"
# The files of harness for an attempt, where root acts. No grader takes them for changes, because the listing
# of a machine's files leaves out the guest's folder. In a foreign image all else in it is read-only.
ATTEMPT_FOLDER = f"{GUEST_FOLDER}/attempt"
# A program that works in any image with a shell, for prepared agents.
FOREIGN_PYTHON = f"{GUEST_FOLDER}/python/bin/python3"
# PID 1 in a foreign image, by the interpreter and the loader that the guest brings.
FOREIGN_GUEST_COMMAND = (
    f"{GUEST_FOLDER}/python/loader",
    "--inhibit-cache",
    "--library-path",
    f"{GUEST_FOLDER}/python/lib",
    f"{FOREIGN_PYTHON}.bin",
    "-I",
    "-S",
    "-B",
    "-c",
    GUEST_COMMAND[-1],
)
HOSTNAME = "sandbox"
# The names of /etc/hosts. sudo resolves the name of its machine.
HOSTS = f"127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n127.0.0.1\t{HOSTNAME}\n"
ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    # Sets of strings have the same order in every container, so that the same program gets the same verdict.
    "PYTHONHASHSEED": "0",
}
WORK_FOLDER = "/work"
HOME = f"{WORK_FOLDER}/agent"
# Each prepared agent has a folder here, which belongs to root. It is a layer of the image.
AGENTS_FOLDER = "/opt/agents"
TEMPORARY_FOLDER = "/tmp"
SHARED_MEMORY_FOLDER = "/dev/shm"
# Every user of a sandbox can write to these folders. The guest empties them after each job.
SHARED_FOLDERS = (TEMPORARY_FOLDER, SHARED_MEMORY_FOLDER, "/dev/mqueue")
# The only way to a pseudo-terminal. The machine has one count of pseudo-terminals for all containers.
TERMINALS = "/dev/pts/ptmx"
# PID 1 needs no more than these to start jobs under separate users and to end them.
CAPABILITIES = ("CHOWN", "KILL", "SETGID", "SETUID")
# The default of Docker without NET_RAW, MKNOD and AUDIT_WRITE.
FOREIGN_CAPABILITIES = (
    *CAPABILITIES,
    *("DAC_OVERRIDE", "FOWNER", "FSETID", "NET_BIND_SERVICE", "SETFCAP", "SETPCAP", "SYS_CHROOT"),
)
ROOT_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "USER": "root",
    "LOGNAME": "root",
    "SHELL": "/bin/bash",
    "TERM": "dumb",
}


def job_environment(*, root: bool | None = None) -> dict[str, str]:
    """Return the environment of a job. If `root` is not None, it includes the home of the job's user."""
    environment = {name: value for name, value in ENVIRONMENT.items() if name != "PYTHONHASHSEED"}
    if root is None:
        return environment
    return {**environment, **ROOT_ENVIRONMENT} if root else {**environment, "HOME": HOME}
