"""An SMB client for tests, with impacket: a command per line on standard input, as JSON, and an answer per line."""

import json
import struct
import sys

from impacket import nt_errors, smb3, smb3structs, smbconnection

ACCESS = {"r": smb3structs.GENERIC_READ, "w": smb3structs.GENERIC_WRITE, "d": smb3structs.DELETE}
SHARE = {
    "r": smb3structs.FILE_SHARE_READ,
    "w": smb3structs.FILE_SHARE_WRITE,
    "d": smb3structs.FILE_SHARE_DELETE,
}
DISPOSITION = {
    "open": smb3structs.FILE_OPEN,
    "create": smb3structs.FILE_CREATE,
    "replace": smb3structs.FILE_OVERWRITE_IF,
}
OPLOCK = {
    "none": smb3structs.SMB2_OPLOCK_LEVEL_NONE,
    "batch": smb3structs.SMB2_OPLOCK_LEVEL_BATCH,
    "lease": smb3structs.SMB2_OPLOCK_LEVEL_LEASE,
}
LEASE = (
    smb3structs.SMB2_LEASE_READ_CACHING
    | smb3structs.SMB2_LEASE_HANDLE_CACHING
    | smb3structs.SMB2_LEASE_WRITE_CACHING
)


def flags(letters, table):
    return sum(table[letter] for letter in letters)


def lease_request():
    """A create context RqLs, version 1 (MS-SMB2 2.2.13.2.8)."""
    data = b"longhaul-testkey" + struct.pack("<IIQ", LEASE, 0, 0)
    return struct.pack("<IHHHHI4s4x", 0, 16, 4, 0, 24, len(data), b"RqLs") + data


class Context(bytes):
    def getData(self):
        return bytes(self)


class Client:
    def __init__(self):
        self.handles = {}

    def connect(self, port, share, user, password):
        self.session = smbconnection.SMBConnection("127.0.0.1", "127.0.0.1", sess_port=port, timeout=60)
        self.session.login(user, password)
        self.smb = self.session.getSMBServer()
        receive = self.smb.recvSMB

        def recvSMB(*arguments):
            self.answer = receive(*arguments)
            return self.answer

        self.smb.recvSMB = recvSMB
        self.tree = self.session.connectTree(share)
        return {"dialect": self.session.getDialect()}

    def open(self, name, access, share, disposition, oplock):
        contexts = [Context(lease_request())] if oplock == "lease" else None
        opened = self.smb.create(
            self.tree,
            name,
            flags(access, ACCESS),
            flags(share, SHARE),
            smb3structs.FILE_NON_DIRECTORY_FILE,
            DISPOSITION[disposition],
            smb3structs.FILE_ATTRIBUTE_NORMAL,
            oplockLevel=OPLOCK[oplock],
            createContexts=contexts,
        )
        granted = smb3structs.SMB2Create_Response(self.answer["Data"])["OplockLevel"]
        number = len(self.handles) + 1
        self.handles[number] = opened
        about = self.smb.queryInfo(self.tree, opened, fileInfoClass=smb3structs.SMB2_FILE_INTERNAL_INFO)
        return {"handle": number, "oplock": granted, "id": struct.unpack("<Q", about[:8])[0]}

    def read(self, handle, offset, size):
        return self.smb.read(self.tree, self.handles[handle], offset, size).decode()

    def write(self, handle, offset, text):
        data = text.encode()
        return self.smb.write(self.tree, self.handles[handle], data, offset, len(data))

    def lock(self, handle, offset, size):
        lock = smb3structs.SMB2_LOCK_ELEMENT()
        lock["Offset"], lock["Length"] = offset, size
        lock["Flags"] = smb3structs.SMB2_LOCKFLAG_EXCLUSIVE_LOCK | smb3structs.SMB2_LOCKFLAG_FAIL_IMMEDIATELY
        # SMB3.lock of impacket 0.10 joins the elements as text, which fails in Python 3.
        request = smb3structs.SMB2Lock()
        request["FileID"], request["LockCount"], request["Locks"] = self.handles[handle], 1, lock.getData()
        packet = self.smb.SMB_PACKET()
        packet["Command"], packet["TreeID"], packet["Data"] = smb3structs.SMB2_LOCK, self.tree, request
        return self.smb.recvSMB(self.smb.sendSMB(packet)).isValidAnswer(nt_errors.STATUS_SUCCESS)

    def close(self, handle):
        return self.smb.close(self.tree, self.handles.pop(handle))

    def list(self, pattern):
        names = (entry.get_longname() for entry in self.session.listPath(SHARE_NAME, pattern))
        return sorted(name for name in names if name not in (".", ".."))

    def remove(self, name):
        return self.session.deleteFile(SHARE_NAME, name)

    def rename(self, old, new):
        return self.session.rename(SHARE_NAME, old, new)


SHARE_NAME = "files"


def run(client, command, arguments):
    try:
        return {"done": getattr(client, command)(*arguments)}
    except (smb3.SessionError, smbconnection.SessionError) as error:
        code = error.get_error_code() if isinstance(error, smb3.SessionError) else error.getErrorCode()
        return {"status": nt_errors.ERROR_MESSAGES.get(code, (hex(code),))[0]}


def main():
    client = Client()
    for line in sys.stdin:
        command, *arguments = json.loads(line)
        print(json.dumps(run(client, command, arguments)), flush=True)


main()
