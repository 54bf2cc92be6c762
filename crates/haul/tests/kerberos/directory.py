"""Changes accounts of an Active Directory domain: directory.py DATABASE GATEWAY SERVER"""

import sys

from samba.auth import system_session
from samba.param import LoadParm
from samba.samdb import SamDB

database, gateway, server = sys.argv[1:]
directory = SamDB(url=database, session_info=system_session(), lp=LoadParm())
for account, flags in [(gateway, 0x2000000), (server, 0)]:  # NO_AUTH_DATA_REQUIRED: no PAC in tickets for it
    found = directory.search(expression=f"(sAMAccountName={account})", attrs=["userAccountControl"])[0]
    control = int(str(found["userAccountControl"][0])) | flags
    directory.modify_ldif(
        f"dn: {found.dn}\nchangetype: modify\n"
        f"replace: userAccountControl\nuserAccountControl: {control}\n-\n"
        "replace: msDS-SupportedEncryptionTypes\nmsDS-SupportedEncryptionTypes: 24\n"  # AES
    )
