//! A Kerberos realm of the test's own: MIT's KDC with its database in OpenLDAP, because its own database has no place for the
//! services to which another one may delegate.

use std::{
    fs,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    Daemon,
    common::{Room, eventually, output, printed, text},
    free_port,
};

/// The gateway's principal.
pub(crate) const GATEWAY: &str = "cifs/gateway.example.test";
/// The server's.
pub(crate) const SERVER: &str = "HTTP/localhost";
const ADMIN: &str = "cn=admin,dc=test";

/// The schema of the KDC's entries. Some machines leave out the documentation of packages.
pub(crate) const SCHEMA: &str = "/usr/share/doc/krb5-kdc-ldap/kerberos.schema.gz";

/// Programs, and the packages that bring them.
pub(crate) const PROGRAMS: [(&str, &str); 7] = [
    ("/usr/sbin/slapd", "slapd"),
    ("/usr/bin/ldapmodify", "ldap-utils"),
    ("/usr/sbin/krb5kdc", "krb5-kdc"),
    ("/usr/sbin/kdb5_ldap_util", "krb5-kdc-ldap"),
    ("/usr/sbin/kadmin.local", "krb5-admin-server"),
    ("/usr/bin/kinit", "krb5-user"),
    ("/usr/bin/kvno", "krb5-user"),
];

/// A running realm, EXAMPLE.TEST.
pub(crate) struct Realm {
    _processes: Vec<Daemon>,
    folder: PathBuf,
}

impl Realm {
    /// In a folder of the room, with these users, each with a password by [`password`](Self::password).
    pub(crate) fn start(room: &Room, users: &[&str]) -> Self {
        let folder = room.path("realm");
        fs::create_dir_all(folder.join("database")).expect("a folder");
        let directory_url = format!("ldapi://{}", folder.join("ldapi").display().to_string().replace('/', "%2F"));
        let port = free_port();
        for (name, text) in configuration(&folder, &directory_url, port) {
            fs::write(folder.join(name), text).expect("a file");
        }
        let schema = output({
            let mut command = room.command("zcat");
            command.arg(SCHEMA);
            command
        });
        fs::write(folder.join("kerberos.schema"), printed(&schema)).expect("a file");
        let mut command = Daemon::command(room, "/usr/sbin/slapd");
        command.arg("-f").arg(folder.join("slapd.conf")).args(["-h", &directory_url, "-d", "0"]);
        let directory = Daemon::start(command);
        assert!(eventually(|| UnixStream::connect(folder.join("ldapi")).is_ok()), "slapd does not start");
        let entry = "dn: dc=test\nobjectClass: dcObject\nobjectClass: organization\ndc: test\no: test\n";
        change(room, &folder, &directory_url, &["-a"], entry);
        let mut command = room.command("/usr/sbin/kdb5_ldap_util");
        environment(&folder, &mut command);
        command.args(["-H", &directory_url, "-D", ADMIN, "-w", "of the test"]);
        command.args(["create", "-r", "EXAMPLE.TEST", "-subtrees", "dc=test", "-s", "-P", "of the test"]);
        printed(&output(command));
        let mut command = Daemon::command(room, "/usr/sbin/krb5kdc");
        environment(&folder, &mut command);
        command.args(["-n", "-r", "EXAMPLE.TEST"]);
        let kdc = Daemon::start(command);
        // The KDC ends before its database.
        let realm = Self::new(vec![kdc, directory], folder);
        for user in users {
            realm.administer(room, &["addprinc", "-pw", &Self::password(user), user]);
        }
        for service in [GATEWAY, SERVER] {
            realm.administer(room, &["addprinc", "-randkey", service]);
            realm.administer(room, &["ktadd", "-k", &realm.keytab(service).display().to_string(), service]);
        }
        let flags = ["+ok_to_auth_as_delegate", "+no_auth_data_required"];
        realm.administer(room, &["modprinc", flags[0], flags[1], GATEWAY]);
        let entry = format!("krbPrincipalName={GATEWAY}@EXAMPLE.TEST,cn=EXAMPLE.TEST,cn=krb,dc=test");
        let add = format!("add: krbAllowedToDelegateTo\nkrbAllowedToDelegateTo: {SERVER}@EXAMPLE.TEST\n");
        change(room, &realm.folder, &directory_url, &[], &format!("dn: {entry}\nchangetype: modify\n{add}"));
        assert!(eventually(|| realm.log_in(room, users[0]).is_some()), "the KDC does not answer");
        realm
    }

    /// Of processes that run. The folder has a `krb5.conf`.
    pub(crate) fn new(processes: Vec<Daemon>, folder: PathBuf) -> Self {
        Self { _processes: processes, folder }
    }

    /// A user's password.
    pub(crate) fn password(user: &str) -> String {
        format!("{user}'s")
    }

    /// The file with a service's key.
    pub(crate) fn keytab(&self, service: &str) -> PathBuf {
        self.folder.join(service.split('/').next().expect("a name")).with_extension("keytab")
    }

    /// How clients find the realm: `krb5.conf`.
    pub(crate) fn configuration(&self) -> String {
        fs::read_to_string(self.folder.join("krb5.conf")).expect("it is there")
    }

    /// Lets a program find the realm.
    pub(crate) fn environment(&self, command: &mut Command) {
        environment(&self.folder, command);
    }

    /// Runs a command of `kadmin`.
    pub(crate) fn administer(&self, room: &Room, arguments: &[&str]) {
        let mut command = room.command("/usr/sbin/kadmin.local");
        self.environment(&mut command);
        let done = output({
            // The name in its log, which it would otherwise derive from the Unix account.
            command.args(["-r", "EXAMPLE.TEST", "-p", "admin@EXAMPLE.TEST"]).args(arguments);
            command
        });
        assert!(done.status.success(), "{arguments:?}: {}", text(&done.stderr));
    }

    /// The credential cache of a user who has logged in.
    pub(crate) fn log_in(&self, room: &Room, user: &str) -> Option<String> {
        let cache = format!("FILE:{}", self.folder.join(format!("cache-{}", user.replace('/', "-"))).display());
        let mut command = room.command("/usr/bin/kinit");
        self.environment(&mut command);
        command.args(["-c", &cache, user]).env("LC_ALL", "C");
        let done =
            assert_cmd::Command::from_std(command).write_stdin(Self::password(user)).output().expect("it starts");
        done.status.success().then_some(cache)
    }
}

fn environment(folder: &Path, command: &mut Command) {
    command.env("KRB5_CONFIG", folder.join("krb5.conf")).env("KRB5_KDC_PROFILE", folder.join("kdc.conf"));
}

/// Changes the directory.
fn change(room: &Room, folder: &Path, url: &str, options: &[&str], ldif: &str) {
    fs::write(folder.join("change.ldif"), ldif).expect("a file");
    let mut command = room.command("/usr/bin/ldapmodify");
    command
        .args(["-H", url, "-x", "-D", ADMIN, "-w", "of the test", "-f"])
        .arg(folder.join("change.ldif"))
        .args(options);
    printed(&output(command));
}

fn configuration(folder: &Path, directory: &str, port: u16) -> [(&'static str, String); 4] {
    let at = folder.display();
    let hex = "6f66207468652074657374"; // of the test
    let slapd = format!(
        "include /etc/ldap/schema/core.schema
include {at}/kerberos.schema
modulepath /usr/lib/ldap
moduleload back_mdb
database mdb
suffix \"dc=test\"
rootdn \"{ADMIN}\"
rootpw \"of the test\"
directory {at}/database
maxsize 33554432
"
    );
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
    let kdc = format!(
        "[kdcdefaults]
kdc_listen = 127.0.0.1:{port}
kdc_tcp_listen = 127.0.0.1:{port}
[realms]
EXAMPLE.TEST = {{
 database_module = ldap
 key_stash_file = {at}/stash
 acl_file = {at}/acl
}}
[dbmodules]
ldap = {{
 db_library = kldap
 ldap_kdc_dn = \"{ADMIN}\"
 ldap_kadmind_dn = \"{ADMIN}\"
 ldap_service_password_file = {at}/directory-password
 ldap_servers = {directory}
 ldap_kerberos_container_dn = \"cn=krb,dc=test\"
}}
[logging]
kdc = FILE:{at}/kdc.log
"
    );
    let password = format!("{ADMIN}#{{HEX}}{hex}\n");
    [("slapd.conf", slapd), ("krb5.conf", client), ("kdc.conf", kdc), ("directory-password", password)]
}
