"""Stands for `adb`, and for the commands of a phone that need more than a line of shell; see phones.py.

A program by itself, which knows nothing of the project. The first argument says which command it is. What it
does not expect it writes into surprises.txt, and fails. It is started hundreds of times in a test run: what
takes long to import is left alone, or to the calls that need it, and data are what Python itself reads.
"""

import fcntl
import os
import sys

PHONE = os.environ["THINFLOW_TEST_PHONE"]
ROOT = os.path.join(PHONE, "root")
THERE = os.path.join(PHONE, "there")
_MOVED = ("/data/", "/sys/", "/proc/")


def told():
    with open(os.path.join(PHONE, "phone.txt"), encoding="utf-8") as file:
        return eval(file.read())


def note(name, what):
    with open(os.path.join(PHONE, name), "a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(what + "\n")


def surprised(what):
    note("surprises.txt", what)
    print("adb: unexpected: " + what, file=sys.stderr)
    sys.exit(97)


def here(path):
    """Where a path of the phone is on this machine."""
    if not path.startswith("/data/local/tmp/") or ".." in path:
        surprised("a path outside of what adb may write: " + path)
    return ROOT + path


def adb(arguments):
    phone = told()
    note("calls.txt", repr(arguments))
    if arguments == ["devices", "-l"]:
        print(
            "* daemon not running; starting now at tcp:5037\n* daemon started successfully", file=sys.stderr
        )
        print("List of devices attached")
        print("\n".join(phone["devices"]) + "\n")
        return 0
    if arguments[:2] != ["-s", phone["serial"]] or len(arguments) < 4:
        surprised("adb " + " ".join(arguments))
    gone(phone)
    verb, rest = arguments[2], arguments[3:]
    if verb == "shell" and len(rest) == 1:
        return shell(phone, rest[0])
    if verb == "push" and len(rest) >= 2:
        return push(phone, rest[:-1], rest[-1])
    if verb == "pull" and len(rest) >= 2:
        for path in rest[:-1]:
            if not os.path.exists(here(path)):
                print(
                    f"adb: error: failed to stat remote object '{path}': No such file or directory",
                    file=sys.stderr,
                )
                return 1
            copy(here(path), os.path.join(rest[-1], os.path.basename(path)))
        return 0
    surprised("adb " + " ".join(arguments))


def gone(phone):
    """Fail as adb does where the cable was pulled after so many calls."""
    with open(os.path.join(PHONE, "calls.txt"), encoding="utf-8") as file:
        calls = sum(1 for _ in file)
    if phone.get("gone_after") is not None and calls > phone["gone_after"]:
        print(phone.get("gone_with", "error: device '{}' not found".format(phone["serial"])), file=sys.stderr)
        sys.exit(1)


def push(phone, files, place):
    for file in files:
        if not os.path.isfile(file):
            surprised("push of what is no file: " + file)
    if len(files) > 1 and not place.endswith("/"):
        surprised("push of several files to a path: " + place)
    free = phone.get("free")
    for file in files:
        path = here(place)
        target = os.path.join(path, os.path.basename(file)) if place.endswith("/") else path
        if free is not None and os.path.getsize(file) > free:
            with open(target, "wb") as begun:
                begun.write(b"half")
            why = "remote write failed: No space left on device"
            print(f"adb: error: failed to copy '{file}' to '{place}': {why}", file=sys.stderr)
            return 1
        if not os.path.isdir(os.path.dirname(target)):
            why = "remote couldn't create file: No such file or directory"
            print(f"adb: error: failed to copy '{file}' to '{place}': {why}", file=sys.stderr)
            return 1
        copy(file, target)
        os.chmod(target, 0o644)
        if os.path.basename(target) == "benchmark_model":
            # What arrived stays beside it; in its place stands what this machine can run.
            os.rename(target, target + ".elf")
            script = '#!/bin/sh\nTHINFLOW_TEST_PHONE={} exec {} "$0" "$@"\n'.format(PHONE, phone["tool"])
            with open(target, "w", encoding="utf-8") as file:
                file.write(script)
            os.chmod(target, 0o644)
    print(f"{len(files)} files pushed, 0 skipped. 21.4 MB/s")
    return 0


def copy(source, target):
    with open(source, "rb") as file, open(target, "wb") as made:
        made.write(file.read())


def moved(script):
    """A script with the paths of the phone where they are on this machine."""
    for path in _MOVED:
        parts = script.split(path)
        # Not in the middle of another path.
        for n, before in enumerate(parts[:-1]):
            is_path = not before or not (before[-1].isalnum() or before[-1] in "_./")
            parts[n] = before + (ROOT if is_path else "") + path
        script = "".join(parts)
    return script


def shell(phone, script):
    environment = {"PATH": THERE, "THINFLOW_TEST_PHONE": PHONE}
    source, sink = os.pipe()
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, sink, 1),
        (os.POSIX_SPAWN_DUP2, sink, 2),
        (os.POSIX_SPAWN_CLOSE, source),
        (os.POSIX_SPAWN_CLOSE, sink),
    ]
    process = os.posix_spawn("/bin/sh", ["/bin/sh", "-c", moved(script)], environment, file_actions=actions)
    os.close(sink)
    with open(source, "rb") as output:
        for line in output:
            text = line.decode("utf-8", "replace").replace(ROOT + "/", "/")
            if phone.get("carriage_returns"):
                text = text.replace("\n", "\r\n")
            sys.stdout.write(text)
            sys.stdout.flush()
            if phone.get("pulled_at") and phone["pulled_at"] in text:
                # The cable is out: what runs there goes on for nobody.
                print("error: closed", file=sys.stderr)
                os.kill(process, 9)
                os.waitpid(process, 0)
                return 1
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    return 0 if phone.get("tells_no_codes") else code


def taskset(arguments):
    mask = arguments[0]
    if not mask or mask.strip("0123456789abcdef") or int(mask, 16) >> 8 or not int(mask, 16):
        print(f"taskset: bad mask: '{mask}'")
        return 1
    os.environ["THINFLOW_TEST_MASK"] = mask
    os.execv(arguments[1], arguments[1:])


def pkill(arguments):
    import re

    if len(arguments) != 2 or arguments[0] != "-f":
        surprised("pkill " + " ".join(arguments))
    if re.search(arguments[1], f"sh -c pkill -f '{arguments[1]}'"):
        surprised("pkill would end the shell that it runs in: " + arguments[1])
    found = 1
    path = os.path.join(PHONE, "running")
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            number, command = file.read().split(" ", 1)
        if re.search(arguments[1], command):
            try:
                os.kill(int(number), 9)
                found = 0
            except OSError:
                pass
            note("killed.txt", command)
    return found


COMMANDS = {"adb": adb, "taskset": taskset, "pkill": pkill}


def run():
    delay = told().get("delay", 0)
    if delay and sys.argv[1] == "adb":
        import time

        time.sleep(delay)
    sys.exit(COMMANDS[sys.argv[1]](sys.argv[2:]))
