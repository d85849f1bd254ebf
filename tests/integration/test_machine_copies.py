"""A fresh machine gets the files that an agent left, except for tools and files that steer them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import pytest
from contexts import environment_context
from docker import APIClient

from harness.core.errors import SandboxError
from harness.core.types import Task
from harness.environments.base import EnvironmentContext
from harness.environments.os import root_sandbox
from harness.environments.os.environment import Copy, OsSetup, open_machine
from harness.environments.os.file_entries import UnreadableFiles
from harness.environments.os.scripts import Script

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(120)]


@pytest.fixture
def context(client: APIClient) -> EnvironmentContext:
    return environment_context(client, "os")


@contextlib.asynccontextmanager
async def copied(
    context: EnvironmentContext, *commands: str, init: str = "true", prompt: str = "", check: str = ""
) -> AsyncIterator[Copy]:
    """Yield a copy of the machine where an agent ran these commands."""
    task = Task("t", "test", "os", prompt, setup=OsSetup(inits=(Script("bash", init),)))
    async with open_machine(task, context) as environment:
        for command in commands:
            observation = await environment.call("bash", {"command": command})
            assert "[exit code 0]" in observation.text, observation.text
        await environment.end_acting()
        async with environment.copy_left([check]) as copy:
            yield copy


async def output(copy: Copy, command: str) -> str:
    result = await copy.sandbox.run_script(["/bin/bash", "-c", command])
    return str(result.stdout) + str(result.stderr)


async def test_files_keep_contents_modes_owners_times_and_holes(context: EnvironmentContext) -> None:
    make = (
        "mkdir -m 2750 /srv/d; printf '\\0\\377x' > /srv/d/f; chmod 4711 /srv/d/f; chown 1234:4321 /srv/d/f\n"
        "touch -d '2001-02-03 04:05:06.123456789' /srv/d/f; ln /srv/d/f /srv/d/g; ln -s nowhere /srv/d/l\n"
        "touch -h -d '1999-01-01 00:00:00.5' /srv/d/l; mkfifo -m 640 /srv/d/p; touch /srv/d/$'\\377\\n'\n"
        "mkdir /srv/e; truncate -s 8M /srv/e/hole; head -c 2M /dev/zero > /srv/e/zeros\n"
        "echo start > /srv/e/both; truncate -s 4M /srv/e/both; echo end >> /srv/e/both"
    )
    show = (
        "{ find /srv/d -printf '%p %y %m %U %G %n %T@ %l\\n' | sort; od -c /srv/d/f; "
        "[ /srv/d/f -ef /srv/d/g ] && echo same; cd /srv/e; du -k *; sha256sum *; } 2>&1"
    )
    async with copied(context, make, f"{show} | tee /tmp/shown") as copy:
        shown = await output(copy, show)
        assert shown == await output(copy, "cat /tmp/shown")
    assert "same" in shown


async def test_modes_are_copied_though_nothing_else_changed(context: EnvironmentContext) -> None:
    """This includes the bits that the kernel clears in a file that gets a new owner or new contents."""
    init = (
        "useradd -m eve; mkdir -p /data/d /data/sticky; touch /data/{a,b,c} /root/x /usr/stock.log "
        "/etc/own.conf; chmod 000 /data/b; chown eve:eve /data/c"
    )
    change = (
        "umask 077; chmod 750 /data/a; chmod 4755 /data/b; chmod 6711 /data/c; chmod 2770 /data/d; "
        "chmod 1777 /data/sticky; chmod 400 /root/x; chmod 711 /root /home; chmod 640 /usr/stock.log "
        "/etc/own.conf; chmod 1770 /dev/shm; chmod 600 /etc/hosts; chgrp eve /home/eve; chmod 2750 /home/eve"
    )
    paths = "/data /data/* /root /root/x /home /home/eve /usr/stock.log /etc/own.conf /dev/shm /etc/hosts"
    show = f"stat -c '%n %a %U %G' {paths}"
    check = "cd /usr; stat stock.log; cd /etc; stat own.conf"
    async with copied(context, change, f"{show} > /tmp/shown", init=init, check=check) as copy:
        assert await output(copy, show) == await output(copy, "cat /tmp/shown")


async def test_removed_files_are_removed(context: EnvironmentContext) -> None:
    init = "mkdir /data; touch /data/a /data/b; echo x > /usr/stock.log; touch /etc/cron.d/job"
    commands = ("rm /data/a /usr/stock.log /etc/cron.d/job /etc/motd; rm -r /srv; echo y > /data/b",)
    check = "ls /usr/stock.log /etc/motd"
    async with copied(context, *commands, init=init, check=check) as copy:
        left = await output(
            copy, "ls -d /data/* /usr/stock.log /etc/cron.d/job /etc/motd /srv 2> /dev/null; cat /data/b"
        )
    assert left == "/data/b\ny\n"


async def test_large_files_are_copied_in_pieces(context: EnvironmentContext) -> None:
    make = "head -c 70000001 /dev/urandom > /var/tmp/large; sha256sum < /var/tmp/large > /var/tmp/sum"
    async with copied(context, make) as copy:
        assert await output(copy, "sha256sum < /var/tmp/large | cmp - /var/tmp/sum && echo same") == "same\n"


async def test_more_than_a_copy_holds_is_refused(context: EnvironmentContext) -> None:
    make = "truncate -s 200M /var/tmp/a; truncate -s 100M /var/tmp/b"
    with pytest.raises(UnreadableFiles, match=r"\d+ bytes; the limit of a copy is 268435456"):
        async with copied(context, make):
            pass


async def test_users_and_new_commands_are_copied_and_no_link_redirects_a_copy(
    context: EnvironmentContext,
) -> None:
    make = (
        "useradd -m jack; echo 'echo $((6 * 7))' > /usr/local/bin/calc; chmod +x /usr/local/bin/calc\n"
        "ln -s /usr/local/bin/calc /usr/bin/calculate\n"
        "mkdir /root/usr; mv /srv /root/old; ln -s /usr/bin /srv; touch /root/usr/x\n"
        "mkdir /root/e; ln -s /root/e /usr/bin/lib; ln -s /root/e /usr/sbin/lib"
    )
    async with copied(context, make) as copy:
        assert (
            await output(copy, "id -un jack; calc; calculate; ls -d /home/jack")
            == "jack\n42\n42\n/home/jack\n"
        )
        # The links beside interpreters would show these a folder of modules.
        paths = "/srv /root/usr/x /usr/bin/x /usr/bin/lib /usr/sbin/lib"
        assert await output(copy, f"ls -d {paths} 2> /dev/null") == "/root/usr/x\n/srv\n"


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
    "a login profile in a home elsewhere": "/srv/jack/.profile",
    "a tool that tar starts": "/usr/local/bin/zstd",
}


async def test_files_that_steer_tools_are_not_copied(context: EnvironmentContext) -> None:
    paths = ["/srv/plain", *STEERING.values()]
    make = [f"mkdir -p $(dirname {path}); echo forged > {path}; chmod 755 {path}" for path in paths]
    async with copied(context, "\n".join(make)) as copy:
        # Only the file that steers nothing is copied.
        assert await output(copy, f"grep -ls forged {' '.join(paths)}") == "/srv/plain\n"


async def test_a_command_of_the_image_is_not_shadowed(context: EnvironmentContext) -> None:
    make = "cp /bin/true /usr/local/sbin/grep; cp /bin/true /usr/sbin/cat"
    async with copied(context, make) as copy:
        assert await output(copy, "type -p grep cat") == "/usr/bin/grep\n/usr/bin/cat\n"
        assert copy.changed_tools == ("/usr/local/sbin/grep", "/usr/sbin/cat")


async def test_files_among_the_tools_are_copied_if_the_task_names_them(context: EnvironmentContext) -> None:
    make = (
        "mkdir -p /etc/app/parts /usr/share/app; echo 1 > /etc/app/parts/a; echo 2 > /usr/share/app/b\n"
        "echo 3 > /etc/motd"
    )
    prompt = "Write the settings to /etc/app, and a greeting to /etc/motd."
    async with copied(context, make, prompt=prompt, check="cat /usr/share/app/b") as copy:
        assert await output(copy, "cat /etc/app/parts/a /usr/share/app/b /etc/motd") == "1\n2\n3\n"


async def test_a_tool_that_the_task_names_is_not_copied(context: EnvironmentContext) -> None:
    make = "echo forged > /usr/bin/wc; echo forged >> /etc/ld.so.preload"
    check = "/usr/bin/wc -l /etc/passwd; ls /usr /usr/bin /etc /etc/ld.so.preload"
    async with copied(context, make, check=check) as copy:
        assert (
            await output(copy, "grep -c forged /usr/bin/wc /etc/ld.so.preload 2> /dev/null")
            == "/usr/bin/wc:0\n"
        )


async def test_the_copy_has_the_tools_of_the_set_up(context: EnvironmentContext) -> None:
    init = "mv /usr/bin/wc /usr/bin/count; echo 'echo ours' > /usr/bin/wc; chmod +x /usr/bin/wc"
    init += "; echo 1 > ~/.curlrc"
    change = "echo 'echo forged' > /usr/bin/wc; rm /usr/bin/count; echo 2 > ~/.curlrc"
    async with copied(context, change, init=init) as copy:
        # Settings of the set-up are copied as the agent left them.
        assert await output(copy, "wc; echo x | count -l; cat ~/.curlrc") == "ours\n1\n2\n"


async def test_a_login_shell_of_the_agents_is_refused(context: EnvironmentContext) -> None:
    make = "useradd jack; sed -i 's,^jack:.*,jack:x:1:1::/home/jack:/usr/local/bin/x,' /etc/passwd"
    with pytest.raises(UnreadableFiles, match="the login shell of jack is /usr/local/bin/x"):
        async with copied(context, make):
            pass


async def test_a_file_of_users_that_is_not_plain_is_refused(context: EnvironmentContext) -> None:
    make = "cp /etc/passwd /srv/users; ln -sf /srv/users /etc/passwd"
    with pytest.raises(UnreadableFiles, match="/etc/passwd is a link"):
        async with copied(context, make):
            pass


async def test_a_login_shell_that_the_task_names_is_accepted(context: EnvironmentContext) -> None:
    make = "useradd jack; sed -i 's,^jack:.*,jack:x:1:1::/home/jack:/usr/local/bin/x,' /etc/passwd"
    async with copied(context, make, prompt="Make /usr/local/bin/x the shell of jack.") as copy:
        assert await output(copy, "getent passwd jack | cut -d : -f 7") == "/usr/local/bin/x\n"


async def test_files_are_not_listed_by_a_clock_that_was_set_back(
    context: EnvironmentContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_machine(Task("t", "test", "os", ""), context) as environment:
        assert await environment.is_changed() is False
        monkeypatch.setattr(root_sandbox, "CLOCK_TOLERANCE_NS", -1)
        with pytest.raises(SandboxError, match=r"clock was set back") as caught:
            await environment.sandbox.list_changed()
    assert caught.value.outside
