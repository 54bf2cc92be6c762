//! `haul gateway smb --kerberos`, and `--negotiate`, in a Kerberos realm of the test's own: MIT's KDC with OpenLDAP, or
//! Samba's domain controller; Apache with mod_auth_gssapi, Samba and smbclient. The gateway needs root.

mod active_directory;
#[path = "../common/mod.rs"]
mod common;
mod other_realm;
mod realm;
mod web_server;

use std::{
    fs::{self, File, Permissions},
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output, Stdio},
    sync::{Arc, Mutex},
    thread,
};

use common::{HAUL, Room, Running, eventually, text};
use libtest_mimic::{Arguments, Failed, Trial};
use nix::sys::signal::Signal;
use other_realm::OtherRealm;
use realm::{GATEWAY, Realm, SERVER};
use web_server::WebServer;

type Test = fn() -> Result<(), Failed>;

/// Who Apache's processes are.
const NOBODY: u32 = 65534;
const USERS: [&str; 3] = ["ann", "bob", "carol"];

fn main() {
    let arguments = Arguments::from_args();
    let missing = missing();
    if let Some(missing) = &missing {
        eprintln!("SKIPPED: Kerberos: {missing}");
    }
    let missing_for_gateway = missing.is_none().then(missing_for_gateway).flatten();
    if let Some(missing) = &missing_for_gateway {
        eprintln!("SKIPPED: the SMB gateway with Kerberos: {missing}");
    }
    let client: (&str, Test) = ("client_uses_the_users_own_ticket", client_uses_the_users_own_ticket);
    let gateway: [(&str, Test); 6] = [
        ("each_user_acts_under_their_own_name", each_user_acts_under_their_own_name),
        ("enrolments_are_not_used_beside_kerberos", enrolments_are_not_used),
        ("root_reaches_no_share", root_reaches_no_share),
        ("user_of_a_trusted_realm_is_nobody_here", user_of_a_trusted_realm_is_nobody_here),
        ("ticket_is_renewed_before_it_expires", ticket_is_renewed_before_it_expires),
        ("gateway_without_a_usable_keytab_says_why", gateway_without_a_usable_keytab_says_why),
    ];
    let is_ignored = missing.is_some() || missing_for_gateway.is_some();
    let active_directory: (&str, Test) =
        ("users_of_active_directory_act_under_their_own_names", users_of_active_directory_act_under_their_own_names);
    let packages = not_installed(active_directory::missing()).filter(|_| !is_ignored);
    if let Some(missing) = &packages {
        eprintln!("SKIPPED: the SMB gateway with Active Directory: {missing}");
    }
    let trial = |(name, test): (&str, Test)| Trial::test(name, test);
    let mut trials = vec![trial(client).with_ignored_flag(missing.is_some())];
    trials.extend(gateway.map(|test| trial(test).with_ignored_flag(is_ignored)));
    trials.push(trial(active_directory).with_ignored_flag(is_ignored || packages.is_some()));
    libtest_mimic::run(&arguments, trials).exit();
}

/// What this machine lacks for a realm with a web server.
fn missing() -> Option<String> {
    let lacking = realm::PROGRAMS.into_iter().filter(|(path, _)| !Path::new(path).exists()).map(|(_, package)| package);
    let no_schema = || (!Path::new(realm::SCHEMA).exists()).then(|| format!("{} is missing", realm::SCHEMA));
    not_installed(lacking.chain(web_server::missing()).collect()).or_else(no_schema)
}

/// What it lacks for the SMB gateway in it.
fn missing_for_gateway() -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return Some("needs root".to_owned());
    }
    let programs = [("/usr/sbin/smbd", "samba"), ("/usr/bin/smbclient", "smbclient")];
    let lacking = programs.into_iter().filter(|(path, _)| !Path::new(path).exists()).map(|(_, package)| package);
    if let Some(lacking) = not_installed(lacking.collect()) {
        return Some(lacking);
    }
    if let Err(error) = File::options().read(true).write(true).open("/dev/fuse") {
        return Some(format!("/dev/fuse: {error}"));
    }
    let namespaces = Command::new("unshare").args(["--mount", "--pid", "--fork", "true"]).output();
    (!namespaces.is_ok_and(|tried| tried.status.success())).then(|| "no namespaces".to_owned())
}

fn not_installed(mut packages: Vec<&str>) -> Option<String> {
    packages.dedup();
    let list = packages.join(" ");
    (!packages.is_empty()).then(|| format!("not installed: {list}; apt-get install {list}"))
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port()
}

/// A server process, which also ends with a test that is killed.
struct Daemon(Running);

impl Daemon {
    fn command(room: &Room, program: &str) -> Command {
        let mut command = room.command("setpriv");
        command.args(["--pdeathsig", "TERM", "--", program]).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn start(command: Command) -> Self {
        Self(Running::start(command))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // With SIGKILL, Apache's children would go on.
        self.0.send(Signal::SIGTERM);
        self.0.status();
    }
}

/// A realm, a server in it, and an SMB gateway before the server.
struct World {
    // Ended first, in this order.
    gateway: Option<Running>,
    server: WebServer,
    realm: Realm,
    said: Arc<Mutex<String>>,
    port: u16,
    room: Room,
}

impl World {
    /// Without a gateway.
    fn new() -> Self {
        Self::of(|room| {
            let realm = Realm::start(room, &USERS);
            // So the KDC refuses to let anybody act in her name.
            realm.administer(room, &["modprinc", "-allow_forwardable", "carol"]);
            realm
        })
    }

    /// In a realm, without a gateway.
    fn of(realm: impl FnOnce(&Room) -> Realm) -> Self {
        let room = Room::new();
        // Samba's and Apache's processes go through it as other users.
        fs::set_permissions(room.path("."), Permissions::from_mode(0o755)).expect("it is ours");
        let realm = realm(&room);
        let server = WebServer::start(&room, &realm, &USERS);
        Self { gateway: None, server, realm, said: Arc::default(), port: free_port(), room }
    }

    /// Whose gateway has the server's top folder as its share.
    fn with_gateway() -> Self {
        let mut world = Self::new();
        world.start();
        world
    }

    fn haul(&self, arguments: &[&str]) -> Command {
        let mut command = self.room.command(HAUL);
        self.realm.environment(&mut command);
        command.env("HOME", self.room.path("tmp")).args(arguments);
        command
    }

    fn gateway(&self, keytab: &Path, upstream: &str) -> Command {
        let mut command = self.haul(&["gateway", "smb", "--upstream", upstream, "--share", "files"]);
        command.args(["--address", "127.0.0.1", "--port", &self.port.to_string(), "--fresh", "1s"]);
        command.arg("--kerberos").arg(keytab);
        self.place(&mut command);
        command
    }

    fn place(&self, command: &mut Command) {
        command.arg("--state").arg(self.room.path("state")).arg("--key").arg(self.room.path("key"));
    }

    fn start(&mut self) {
        let mut command = self.gateway(&self.realm.keytab(GATEWAY), &self.server.url);
        command.env("HAUL_LOG", "warn,gateway=info,fuser=error").stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let stderr = child.stderr.take().expect("it is piped");
        let said = self.said.clone();
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                said.lock().unwrap().extend([line.as_str(), "\n"]);
            }
        });
        self.gateway = Some(Running(child));
        self.wait_for("Ctrl-C stops");
    }

    fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    fn wait_for(&self, what: &str) {
        assert!(eventually(|| self.said().contains(what)), "it never said {what}:\n{}", self.said());
    }

    fn smbclient(&self, commands: &str) -> Command {
        let mut command = self.room.command("smbclient");
        self.realm.environment(&mut command);
        command.args(["//gateway.example.test/files", "--ip-address", "127.0.0.1", "--configfile", "/dev/null"]);
        command.args(["--debuglevel", "0", "--port", &self.port.to_string(), "--command", commands]);
        command
    }

    /// Runs commands of smbclient as a user who has logged in to the realm, and has no other password.
    fn smb(&self, user: &str, commands: &str) -> (bool, String) {
        let mut command = self.smbclient(commands);
        command.env("KRB5CCNAME", self.realm.log_in(&self.room, user).expect("a user of the realm"));
        command.args(["--use-kerberos=required", "--no-pass"]);
        said(&common::output(command))
    }

    /// The same with rpcclient, which needs only `IPC$`.
    fn rpc(&self, user: &str, commands: &str) -> (bool, String) {
        let mut command = self.room.command("rpcclient");
        self.realm.environment(&mut command);
        command.env("KRB5CCNAME", self.realm.log_in(&self.room, user).expect("a user of the realm"));
        command.args(["--use-kerberos=required", "--no-pass", "--configfile", "/dev/null", "--debuglevel", "0"]);
        command.args(["--port", &self.port.to_string(), "--dest-ip", "127.0.0.1", "--command", commands]);
        command.arg("gateway.example.test");
        said(&common::output(command))
    }

    /// As above; and they succeed.
    fn done(&self, user: &str, commands: &str) -> String {
        let (is_done, said) = self.smb(user, commands);
        assert!(is_done && !said.contains("NT_STATUS"), "{user}: {said}\n{}", self.said());
        said
    }

    fn local(&self, content: &str) -> String {
        let path = self.room.path("local");
        fs::write(&path, content).expect("a file");
        path.display().to_string()
    }

    /// The processes that have the gateway's state folder in their command line.
    fn processes(&self) -> Vec<(i32, String)> {
        let state = self.room.path("state").display().to_string();
        common::processes("cmdline").into_iter().filter(|(_, line)| line.contains(&state)).collect()
    }

    /// The files with tickets, as the gateway's processes see them.
    fn tickets(&self) -> Vec<String> {
        let Some((process, _)) = self.processes().into_iter().find(|(_, line)| line.contains("smbd")) else {
            return Vec::new();
        };
        let folder = format!("/proc/{process}/root{}/tickets", self.room.path("state").display());
        let entries = fs::read_dir(folder).expect("a folder").flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("Apache says:\n{}", self.server.errors());
        }
    }
}

fn said(output: &Output) -> (bool, String) {
    (output.status.success(), text(&output.stdout) + &text(&output.stderr))
}

fn each_user_acts_under_their_own_name() -> Result<(), Failed> {
    let mut world = World::with_gateway();
    for user in ["ann", "bob"] {
        let file = world.local(&format!("by {user}"));
        world.done(user, &format!("put {file} {user}\\note.txt"));
        assert_eq!(world.server.file(&format!("{user}/note.txt")), Some(format!("by {user}")));
    }
    let got = world.room.path("got").display().to_string();
    world.done("ann", &format!("get ann\\note.txt {got}"));
    assert_eq!(fs::read_to_string(&got)?, "by ann");
    assert_eq!(world.tickets(), ["ann", "bob"], "and none of the gateway's");
    // Another's files: the server decides.
    fs::remove_file(&got)?;
    for commands in [format!("get ann\\note.txt {got}"), format!("put {} ann\\x.txt", world.local("by bob"))] {
        let (_, said) = world.smb("bob", &commands);
        assert!(said.contains("NT_STATUS_"), "{commands}: {said}");
    }
    assert!(!Path::new(&got).exists() && world.server.file("ann/x.txt").is_none());
    // A user in whose name the gateway may not act, and one who is none.
    world.realm.administer(&world.room, &["addprinc", "-pw", &Realm::password("root"), "root"]);
    for user in ["carol", "root"] {
        let (_, said) = world.smb(user, "ls");
        assert!(said.contains("NT_STATUS_ACCESS_DENIED"), "{said}");
    }
    world
        .wait_for("carol refused: there is no ticket for carol@EXAMPLE.TEST to HTTP/localhost@EXAMPLE.TEST: kvno: KDC");
    world.realm.administer(&world.room, &["addprinc", "-pw", &Realm::password("ann/admin"), "ann/admin"]);
    let (is_done, said) = world.smb("ann/admin", "ls");
    assert!(!is_done && said.contains("NT_STATUS_"), "ann/admin is not ann: {said}");
    let mut command = world.haul(&["gateway", "status"]);
    world.place(&mut command);
    let status = common::printed(&common::output(command));
    assert!(status.contains("ann: by Kerberos, mounted") && status.contains("bob: by Kerberos"), "{status}");
    // No name at the server but those two.
    let requests = world.server.requests();
    for [user, status, method, target] in &requests {
        let is_own = target.trim_end_matches('/').is_empty() || target.starts_with(&format!("/{user}/"));
        assert!(["ann", "bob"].contains(&user.as_str()), "{user} {status} {method} {target}");
        assert!(is_own || status == "401" || target == &format!("/{user}"), "{user} {status} {method} {target}");
    }
    for user in ["ann", "bob"] {
        let is_put = |[by, status, method, target]: &&[String; 4]| {
            by == user && status == "201" && method == "PUT" && target == &format!("/{user}/note.txt")
        };
        assert_eq!(requests.iter().filter(is_put).count(), 1, "{requests:?}");
    }
    // And nothing is left.
    let mut gateway = world.gateway.take().ok_or("it runs")?;
    gateway.send(Signal::SIGTERM);
    assert!(gateway.status().success(), "{}", world.said());
    assert!(eventually(|| world.processes().is_empty()), "left running: {:?}", world.processes());
    assert_eq!(fs::read_dir(world.room.path("state/tickets"))?.count(), 0);
    Ok(())
}

/// With Kerberos, a name in the vault is nobody's key to what is in it.
fn enrolments_are_not_used() -> Result<(), Failed> {
    let mut world = World::new();
    for user in ["ann", "carol"] {
        let mut command = world.haul(&["gateway", "enroll", user]);
        world.place(&mut command);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let input = format!("{}\nsmb {user}\n", Realm::password("carol"));
        child.stdin.take().ok_or("it is piped")?.write_all(input.as_bytes())?;
        let enrolled = child.wait_with_output()?;
        assert!(enrolled.status.success(), "{}", text(&enrolled.stderr));
    }
    world.start();
    for user in ["ann", "carol"] {
        let login = world.room.path("login");
        fs::write(&login, format!("username = {user}\npassword = smb {user}\n"))?;
        let mut command = world.smbclient("ls");
        command.arg("--use-kerberos=off").arg("--authentication-file").arg(login);
        let (is_done, text) = said(&common::output(command));
        assert!(!is_done && text.contains("NT_STATUS_"), "{text}");
    }
    world.wait_for("SMB login of ann refused: only Kerberos tickets are taken here");
    // Carol, for whom the KDC issues no ticket to the server, has one to the gateway.
    let (_, said) = world.smb("carol", "ls");
    assert!(said.contains("NT_STATUS_ACCESS_DENIED"), "{said}");
    world.done("ann", &format!("put {} ann\\note.txt", world.local("by ann")));
    let puts = world.server.requests().into_iter().filter(|[_, _, method, _]| method == "PUT");
    let puts: Vec<_> = puts.map(|[user, status, _, target]| format!("{user} {status} {target}")).collect();
    assert_eq!(puts, ["ann 201 /ann/note.txt"], "with the ticket, not with carol's password");
    Ok(())
}

/// As root, a client could set the passwords of others.
#[expect(clippy::unnecessary_wraps, reason = "tests have one type")]
fn root_reaches_no_share() -> Result<(), Failed> {
    let world = World::with_gateway();
    world.realm.administer(&world.room, &["addprinc", "-pw", &Realm::password("root"), "root"]);
    let (is_done, said) = world.rpc("ann", "getusername");
    assert!(is_done, "control: ann may ask: {said}");
    for commands in ["getusername", "enumdomusers", "setuserinfo2 ann 24 Stolen99"] {
        let (is_done, said) = world.rpc("root", commands);
        assert!(!is_done && said.contains("NT_STATUS_ACCESS_DENIED"), "{commands}: {said}");
    }
    Ok(())
}

#[expect(clippy::unnecessary_wraps, reason = "tests have one type")]
fn users_of_active_directory_act_under_their_own_names() -> Result<(), Failed> {
    let mut world = World::of(|room| active_directory::start(room, &USERS));
    world.start();
    for user in ["ann", "bob"] {
        world.done(user, &format!("put {} {user}\\note.txt", world.local(&format!("by {user}"))));
        assert_eq!(world.server.file(&format!("{user}/note.txt")), Some(format!("by {user}")));
    }
    let (_, said) = world.smb("bob", &format!("get ann\\note.txt {}", world.room.path("got").display()));
    assert!(said.contains("NT_STATUS_") && !world.room.path("got").exists(), "{said}");
    let (_, said) = world.smb("carol", "ls");
    assert!(said.contains("NT_STATUS_ACCESS_DENIED"), "{said}");
    world.wait_for("carol refused: there is no ticket for carol@EXAMPLE.TEST");
    let puts = world.server.requests().into_iter().filter(|[_, _, method, _]| method == "PUT");
    let puts: Vec<_> = puts.map(|[user, status, _, target]| format!("{user} {status} {target}")).collect();
    assert_eq!(puts, ["ann 201 /ann/note.txt", "bob 201 /bob/note.txt"]);
    Ok(())
}

fn user_of_a_trusted_realm_is_nobody_here() -> Result<(), Failed> {
    let world = World::with_gateway();
    let other = OtherRealm::start(&world.room, &world.realm);
    let mut command = world.smbclient("ls");
    other.log_in(&world.room, &mut command);
    command.args(["--use-kerberos=required", "--no-pass"]);
    let (is_done, said) = said(&common::output(command));
    assert!(!is_done && said.contains("NT_STATUS_ACCESS_DENIED"), "{said}");
    assert_eq!(world.tickets(), [""; 0], "{}", world.said());
    let accounts = fs::read_to_string(world.room.path("state/accounts/passwd"))?;
    assert!(!accounts.contains("ann"), "{accounts}");
    Ok(())
}

#[expect(clippy::unnecessary_wraps, reason = "tests have one type")]
fn ticket_is_renewed_before_it_expires() -> Result<(), Failed> {
    let mut world = World::new();
    world.realm.administer(&world.room, &["modprinc", "-maxlife", "12 seconds", SERVER]);
    world.start();
    let file = world.local("by ann");
    world.done("ann", &format!("put {file} ann\\before.txt"));
    let renewals = || world.said().matches("the ticket of ann is renewed").count();
    // After the second one, the first ticket is no longer valid.
    assert!(eventually(|| renewals() >= 2), "{}", world.said());
    world.done("ann", &format!("put {file} ann\\after.txt"));
    assert_eq!(world.server.file("ann/after.txt").as_deref(), Some("by ann"));
    assert_eq!(world.said().matches("the mount of ann is there").count(), 1, "the same mount\n{}", world.said());
    // When the KDC refuses, access ends with the last ticket.
    world.realm.administer(&world.room, &["modprinc", "-allow_forwardable", "ann"]);
    world.wait_for("the ticket of ann is not renewed: kvno: KDC");
    let is_refused = || world.smb("ann", &format!("put {file} ann\\late.txt")).1.contains("NT_STATUS_");
    assert!(eventually(is_refused), "{}", world.said());
    Ok(())
}

#[expect(clippy::unnecessary_wraps, reason = "tests have one type")]
fn gateway_without_a_usable_keytab_says_why() -> Result<(), Failed> {
    let world = World::new();
    let missing = world.room.path("no-keytab");
    let [open, other] = ["open", "other"].map(|name| world.room.path(name));
    for (from, to, mode) in [(GATEWAY, &open, 0o640), (SERVER, &other, 0o600)] {
        fs::copy(world.realm.keytab(from), to).expect("a file");
        fs::set_permissions(to, Permissions::from_mode(mode)).expect("it is ours");
    }
    for (keytab, upstream, why) in [
        (missing.clone(), world.server.url.as_str(), "cannot use the keytab"),
        (open, &world.server.url, "others can read or change it"),
        (other, &world.server.url, "it has no key of cifs/HOST"),
        (
            world.realm.keytab(GATEWAY),
            "http://dav.example.test/",
            "not sent to http://dav.example.test without TLS; use https",
        ),
    ] {
        let said = common::one_sentence(&common::output(world.gateway(&keytab, upstream)), 1);
        assert!(said.contains(why), "{said}");
    }
    Ok(())
}

fn client_uses_the_users_own_ticket() -> Result<(), Failed> {
    let world = World::new();
    let cache = world.realm.log_in(&world.room, "ann").ok_or("a user of the realm")?;
    let url = format!("{}ann/", world.server.url);
    let with_ticket = |arguments: &[&str]| {
        let mut command = world.haul(arguments);
        command.arg("--negotiate").env("KRB5CCNAME", &cache);
        common::output(command)
    };
    // It gets the ticket for the server, if the KDC knows the server.
    common::printed(&with_ticket(&["ls", &url]));
    let said = common::one_sentence(&with_ticket(&["ls", &url.replace("localhost", "127.0.0.1")]), 1);
    assert!(said.contains("no ticket for HTTP/127.0.0.1: kvno: Server ") && said.contains("not found"), "{said}");
    for encryption in ["aes256-cts-hmac-sha1-96", "aes128-cts-hmac-sha1-96"] {
        let mut kvno = world.room.command("kvno");
        world.realm.environment(&mut kvno);
        kvno.args(["-e", encryption, SERVER]).env("KRB5CCNAME", &cache);
        common::printed(&common::output(kvno));
        // Many requests at once, pipelined: each has a token of its own, or the server would refuse a replay.
        let folder = world.room.path(encryption);
        fs::create_dir(&folder)?;
        for number in 0..100 {
            fs::write(folder.join(number.to_string()), encryption)?;
        }
        let copied = with_ticket(&["cp", "-r", &folder.display().to_string(), &url]);
        assert!(copied.status.success(), "{}", text(&copied.stderr));
        assert_eq!(world.server.file(&format!("ann/{encryption}/99")).as_deref(), Some(encryption));
    }
    let refused = with_ticket(&["ls", &format!("{}bob/", world.server.url)]);
    let said = common::one_sentence(&refused, 1);
    assert!(said.contains("rejected the Kerberos ticket of ann@EXAMPLE.TEST"), "{said}");
    assert!(world.server.requests().iter().all(|[user, ..]| ["ann", "-"].contains(&user.as_str())));
    Ok(())
}
