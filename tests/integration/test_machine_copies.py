"""A fresh machine gets the files that an agent left, except for tools and files that steer them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from contexts import environment_context
from docker import APIClient

from harness.core.errors import SandboxError
from harness.core.types import Task
from harness.environments.os import root_sandbox
from harness.environments.os.environment import Copy, Machine, OsSetup, open_machine
from harness.environments.os.file_entries import UnreadableFiles
from harness.environments.os.scripts import Script

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240)]

STEERING = {
    "settings beside an interpreter": "/usr/bin/pyvenv.cfg",
    "settings above an interpreter": "/usr/pyvenv.cfg",
    "settings at the top": "/pyvenv.cfg",
    "a search path": "/usr/bin/python3._pth",
    "a start-up file of all users": "/etc/profile.d/x.sh",
    "variables of all sessions": "/etc/environment",
    "a library for every program": "/etc/ld.so.preload",
    "rules of sessions": "/etc/pam.d/su",
    "settings of OpenSSL": "/etc/ssl/openssl.cnf",
    "a header": "/usr/include/stdio.h",
    "a module": "/usr/local/lib/python3.11/dist-packages/x.pth",
    "a tool under a new name": "/usr/x86_64-linux-gnu/bin/as",
    "the guest": "/opt/harness/harness/sandbox/guest/main.py",
    "settings of curl": "/root/.curlrc",
    "settings of jq": "/root/.jq",
    "a login profile": "/home/jack/.profile",
    "a login profile in a home elsewhere": "/var/jack/.profile",
    "a tool that tar starts": "/usr/local/bin/zstd",
}

STEERED = ["/var/plain", *STEERING.values()]
SHOW_FILES = (
    "{ find /opt/d -printf '%p %y %m %U %G %n %T@ %l\\n' | sort; od -c /opt/d/f; "
    "[ /opt/d/f -ef /opt/d/g ] && echo same; cd /opt/e; du -k *; sha256sum *; } 2>&1"
)
SHOW_MODES = (
    "stat -c '%n %a %U %G' /data /data/* /root /root/x /home /home/eve /usr/stock.log /etc/own.conf /dev/shm "
    "/etc/hosts"
)
# What the set-up, the agent, the task and its checks say of each part of the tests below.
INIT = """
useradd -m eve; mkdir -p /data/d /data/sticky; touch /data/{a,b,c} /root/x /usr/stock.log /etc/own.conf
chmod 000 /data/b; chown eve:eve /data/c
mkdir /gone; touch /gone/a /gone/b; echo x > /usr/old.log; touch /etc/cron.d/job
mv /usr/bin/wc /usr/bin/count; echo 'echo ours' > /usr/bin/wc; chmod +x /usr/bin/wc; echo 1 > ~/.wgetrc
"""
COMMANDS = (
    "mkdir -m 2750 /opt/d; printf '\\0\\377x' > /opt/d/f; chmod 4711 /opt/d/f; chown 1234:4321 /opt/d/f\n"
    "touch -d '2001-02-03 04:05:06.123456789' /opt/d/f; ln /opt/d/f /opt/d/g; ln -s nowhere /opt/d/l\n"
    "touch -h -d '1999-01-01 00:00:00.5' /opt/d/l; mkfifo -m 640 /opt/d/p; touch /opt/d/$'\\377\\n'\n"
    "mkdir /opt/e; truncate -s 8M /opt/e/hole; head -c 2M /dev/zero > /opt/e/zeros\n"
    "echo start > /opt/e/both; truncate -s 4M /opt/e/both; echo end >> /opt/e/both",
    "(umask 077; chmod 750 /data/a; chmod 4755 /data/b; chmod 6711 /data/c; chmod 2770 /data/d; "
    "chmod 1777 /data/sticky; chmod 400 /root/x; chmod 711 /root /home; chmod 640 /usr/stock.log "
    "/etc/own.conf; chmod 1770 /dev/shm; chmod 600 /etc/hosts; chgrp eve /home/eve; chmod 2750 /home/eve)",
    f"{SHOW_FILES} > /tmp/files; {SHOW_MODES} > /tmp/modes",
    "rm /gone/a /usr/old.log /etc/cron.d/job /etc/issue; rm -r /media; echo y > /gone/b",
    "head -c 70000001 /dev/urandom > /var/tmp/large; sha256sum < /var/tmp/large > /var/tmp/sum",
    "useradd -m jack; echo 'echo $((6 * 7))' > /usr/local/bin/calc; chmod +x /usr/local/bin/calc\n"
    "ln -s /usr/local/bin/calc /usr/bin/calculate\n"
    "mkdir /root/usr; mv /srv /root/old; ln -s /usr/bin /srv; touch /root/usr/x\n"
    "mkdir /root/e; ln -s /root/e /usr/bin/lib; ln -s /root/e /usr/sbin/lib",
    "mkdir -p /etc/app/parts /usr/share/app; echo 1 > /etc/app/parts/a; echo 2 > /usr/share/app/b\n"
    "echo 3 > /etc/motd",
    "echo 'echo forged' > /usr/bin/wc; rm /usr/bin/count; echo 2 > ~/.wgetrc",
    "useradd jill; sed -i 's,^jill:.*,jill:x:1:1::/home/jill:/usr/local/bin/seashell,' /etc/passwd",
    "echo forged > /usr/bin/nl; cp /bin/true /usr/local/sbin/grep; cp /bin/true /usr/sbin/cat",
    "\n".join(f"mkdir -p $(dirname {path}); echo forged > {path}; chmod 755 {path}" for path in STEERED),
)
PROMPT = "Write settings to /etc/app, and a greeting to /etc/motd. Make /usr/local/bin/seashell jill's shell."
CHECK = (
    "cd /usr; stat stock.log; cd /etc; stat own.conf; ls /usr/old.log /etc/issue /usr/share/app/b\n"
    "/usr/bin/nl /etc/passwd; ls /usr /usr/bin /etc /etc/ld.so.preload"
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def machine(client: APIClient) -> AsyncIterator[Machine]:
    """Yield a machine where an agent made all changes, and whose processes are dead."""
    task = Task("t", "test", "os", PROMPT, setup=OsSetup(inits=(Script("bash", INIT),)))
    async with open_machine(task, environment_context(client, "os")) as environment:
        for command in COMMANDS:
            observation = await environment.call("bash", {"command": command})
            assert "[exit code 0]" in observation.text, observation.text
        await environment.end_acting()
        yield environment


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def copy(machine: Machine) -> AsyncIterator[Copy]:
    async with machine.copy_left([CHECK]) as copied:
        yield copied


async def output(copy: Copy, command: str) -> str:
    result = await copy.sandbox.run_script(["/bin/bash", "-c", command])
    return str(result.stdout) + str(result.stderr)


async def test_files_keep_contents_modes_owners_times_and_holes(copy: Copy) -> None:
    shown = await output(copy, SHOW_FILES)
    assert shown == await output(copy, "cat /tmp/files")
    assert "same" in shown


async def test_modes_are_copied_though_nothing_else_changed(copy: Copy) -> None:
    """This includes the bits that the kernel clears in a file that gets a new owner or new contents."""
    assert await output(copy, SHOW_MODES) == await output(copy, "cat /tmp/modes")


async def test_removed_files_are_removed(copy: Copy) -> None:
    left = await output(
        copy, "ls -d /gone/* /usr/old.log /etc/cron.d/job /etc/issue /media 2> /dev/null; cat /gone/b"
    )
    assert left == "/gone/b\ny\n"


async def test_large_files_are_copied_in_pieces(copy: Copy) -> None:
    assert await output(copy, "sha256sum < /var/tmp/large | cmp - /var/tmp/sum && echo same") == "same\n"


async def test_users_and_new_commands_are_copied_and_no_link_redirects_a_copy(copy: Copy) -> None:
    found = await output(copy, "id -un jack; calc; calculate; ls -d /home/jack")
    assert found == "jack\n42\n42\n/home/jack\n"
    # The links beside interpreters would show these a folder of modules.
    paths = "/srv /root/usr/x /usr/bin/x /usr/bin/lib /usr/sbin/lib"
    assert await output(copy, f"ls -d {paths} 2> /dev/null") == "/root/usr/x\n/srv\n"


async def test_files_that_steer_tools_are_not_copied(copy: Copy) -> None:
    # Only the file that steers nothing is copied.
    assert await output(copy, f"grep -ls forged {' '.join(STEERED)}") == "/var/plain\n"


async def test_a_command_of_the_image_is_not_shadowed(copy: Copy) -> None:
    assert await output(copy, "type -p grep cat") == "/usr/bin/grep\n/usr/bin/cat\n"
    assert {"/usr/local/sbin/grep", "/usr/sbin/cat"} <= {*copy.changed_tools}
    assert "/usr/local/bin/calc" not in copy.changed_tools


async def test_files_among_the_tools_are_copied_if_the_task_names_them(copy: Copy) -> None:
    assert await output(copy, "cat /etc/app/parts/a /usr/share/app/b /etc/motd") == "1\n2\n3\n"


async def test_a_tool_that_the_task_names_is_not_copied(copy: Copy) -> None:
    found = await output(copy, "grep -c forged /usr/bin/nl /etc/ld.so.preload 2> /dev/null")
    assert found == "/usr/bin/nl:0\n"


async def test_the_copy_has_the_tools_of_the_set_up(copy: Copy) -> None:
    # Settings of the set-up are copied as the agent left them.
    assert await output(copy, "wc; echo x | count -l; cat ~/.wgetrc") == "ours\n1\n2\n"


async def test_a_login_shell_that_the_task_names_is_accepted(copy: Copy) -> None:
    assert await output(copy, "getent passwd jill | cut -d : -f 7") == "/usr/local/bin/seashell\n"


async def test_files_that_no_copy_can_have_are_refused(client: APIClient) -> None:
    cases = {
        "truncate -s 200M /var/tmp/a; truncate -s 100M /var/tmp/b": (
            r"\d+ bytes; the limit of a copy is 268435456"
        ),
        "useradd jack; sed -i 's,^jack:.*,jack:x:1:1::/home/jack:/usr/local/bin/x,' /etc/passwd": (
            "the login shell of jack is /usr/local/bin/x"
        ),
        "cp /etc/passwd /srv/users; ln -sf /srv/users /etc/passwd": "/etc/passwd is a link",
    }
    async with open_machine(Task("t", "test", "os", ""), environment_context(client, "os")) as environment:
        assert await environment.is_changed() is False
        for command, message in cases.items():
            await environment.call("bash", {"command": command})
            async with environment.list_ahead():
                with pytest.raises(UnreadableFiles, match=message):
                    async with environment.copy_left([""]):
                        pass
            await environment.call("bash", {"command": "rm -f /var/tmp/*"})


async def test_files_are_not_listed_by_a_clock_that_was_set_back(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(root_sandbox, "CLOCK_TOLERANCE_NS", -1)
    with pytest.raises(SandboxError, match=r"clock was set back") as caught:
        await machine.sandbox.list_changed()
    assert caught.value.outside
