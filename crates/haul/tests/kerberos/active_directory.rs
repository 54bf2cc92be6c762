//! An Active Directory domain of the test's own: Samba's domain controller, of which only the KDC runs.

use std::fs;

use crate::{
    Daemon,
    common::{Room, eventually, output, printed},
    free_port,
    realm::{GATEWAY, Realm, SERVER},
};

/// Debian's, for which Samba's modules are.
const PYTHON: &str = "/usr/bin/python3";
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kerberos/directory.py");

/// The packages that this machine lacks.
pub(crate) fn missing() -> Vec<&'static str> {
    let has_modules = || {
        let folders = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
        folders.into_iter().any(|folder| folder.path().join("samba/ldb/acl.so").exists())
    };
    let lacks = |path: &str| !std::path::Path::new(path).exists();
    let mut packages = Vec::new();
    packages.extend(lacks("/usr/bin/samba-tool").then_some("samba-common-bin"));
    packages.extend(lacks("/usr/share/samba/setup").then_some("samba-ad-provision"));
    packages.extend((!has_modules()).then_some("samba-dsdb-modules"));
    packages
}

/// The domain EXAMPLE.TEST in a folder of the room, with these users. Nobody may act in the name of the last one.
pub(crate) fn start(room: &Room, users: &[&str]) -> Realm {
    let folder = room.path("realm");
    fs::create_dir_all(folder.join("run")).expect("a folder");
    let (at, port) = (folder.display().to_string(), free_port());
    let configuration = format!("{at}/dc/etc/smb.conf");
    let tool = |arguments: &[&str]| {
        let mut command = room.command("samba-tool");
        command.args(arguments);
        printed(&output(command))
    };
    let mut provision = ["domain", "provision", "--realm=EXAMPLE.TEST", "--domain=EXAMPLE", "--server-role=dc"]
        .map(str::to_owned)
        .to_vec();
    provision.extend(["--dns-backend=NONE", "--host-ip=127.0.0.1", "--host-name=dc1"].map(str::to_owned));
    provision.extend([format!("--targetdir={at}/dc"), "--adminpass=0f the Test".to_owned()]);
    let settings = ["interfaces=lo", "bind interfaces only=yes", "server services=kdc"].map(str::to_owned);
    let ports = [format!("krb5 port={port}"), format!("kpasswd port={}", free_port())];
    let folders = [format!("pid directory={at}/run"), format!("ncalrpc dir={at}/run"), format!("log file={at}/log")];
    let all = settings.into_iter().chain(ports).chain(folders);
    provision.extend(all.map(|setting| format!("--option={setting}")));
    tool(&provision.iter().map(String::as_str).collect::<Vec<_>>());
    let administer = |arguments: &[&str]| tool(&[arguments, &["-s", &configuration]].concat());
    administer(&["domain", "passwordsettings", "set", "--complexity=off", "--min-pwd-length=1"]);
    for user in users.iter().chain(&["gw", "web"]) {
        administer(&["user", "create", user, &Realm::password(user)]);
    }
    administer(&["user", "sensitive", users.last().expect("a user"), "on"]);
    administer(&["spn", "add", GATEWAY, "gw"]);
    administer(&["spn", "add", SERVER, "web"]);
    administer(&["delegation", "for-any-protocol", "gw", "on"]);
    administer(&["delegation", "add-service", "gw", SERVER]);
    let mut command = room.command(PYTHON);
    command.args([SCRIPT, &format!("{at}/dc/private/sam.ldb"), "gw", "web"]);
    printed(&output(command));
    let client = format!(
        "[libdefaults]
default_realm = EXAMPLE.TEST
dns_lookup_realm = false
dns_lookup_kdc = false
dns_canonicalize_hostname = false
rdns = false
[realms]
EXAMPLE.TEST = {{
 kdc = 127.0.0.1:{port}
}}
"
    );
    fs::write(folder.join("krb5.conf"), client).expect("a file");
    let mut command = Daemon::command(room, "/usr/sbin/samba");
    command.args(["--interactive", "--no-process-group", "-M", "single", "-s", &configuration]);
    let realm = Realm::new(vec![Daemon::start(command)], folder);
    // The account comes first.
    for (service, names) in [(GATEWAY, &["gw", GATEWAY][..]), (SERVER, &[SERVER])] {
        let keytab = realm.keytab(service).display().to_string();
        for name in names {
            administer(&["domain", "exportkeytab", &keytab, &format!("--principal={name}")]);
        }
    }
    assert!(eventually(|| realm.log_in(room, users[0]).is_some()), "the KDC does not answer");
    realm
}
