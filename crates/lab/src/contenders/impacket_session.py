"""Works in an SMB share: a task per line on standard input, as JSON, and a line when it is done."""

import json
import sys

from impacket.smb3structs import FILE_OVERWRITE_IF, FILE_SHARE_READ, GENERIC_READ, GENERIC_WRITE
from impacket.smbconnection import SMBConnection


def put(session, tree, local, name):
    with open(local, "rb") as file:
        content = file.read()
    opened = session.createFile(tree, name, desiredAccess=GENERIC_WRITE, creationDisposition=FILE_OVERWRITE_IF)
    largest = session.getIOCapabilities()["MaxWriteSize"]
    for start in range(0, len(content), largest):
        session.writeFile(tree, opened, content[start : start + largest], start)
    session.closeFile(tree, opened)


def get(session, tree, name, local):
    opened = session.openFile(tree, name, desiredAccess=GENERIC_READ, shareMode=FILE_SHARE_READ)
    largest = session.getIOCapabilities()["MaxReadSize"]
    with open(local, "wb") as file:
        while True:
            content = session.readFile(tree, opened, file.tell(), largest)
            if not content:
                break
            file.write(content)
            if len(content) < largest:
                break
    session.closeFile(tree, opened)


def main(address, port, share):
    session = SMBConnection(address, address, sess_port=int(port), timeout=60)
    # An unknown user, whom Samba lets in as a guest.
    session.login("desktop", "")
    tree = session.connectTree(share)
    print("ready", flush=True)
    for line in sys.stdin:
        task = json.loads(line)
        below = task["folder"].strip("/").replace("/", "\\") + "\\"
        path = lambda name: below + name.replace("/", "\\")
        for folder in task["make"]:
            session.createDirectory(share, path(folder))
        for local, name in task.get("put", []):
            put(session, tree, local, path(name))
        for name, local in task.get("get", []):
            get(session, tree, path(name), local)
        names = None
        if task.get("list"):
            names = [entry.get_longname() for entry in session.listPath(share, below + "*")]
            names = [name for name in names if name not in (".", "..")]
        print(json.dumps(names), flush=True)
    session.close()


main(*sys.argv[1:])
