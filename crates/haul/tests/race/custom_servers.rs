//! Programs of the user's own as servers.

use std::{fs, path::Path, process::Command};

use crate::{
    Trials,
    common::{HAUL, Room},
    custom::{cell, has, reason, with_toml},
    harness::{cells, results, room, run},
};

pub(crate) const TRIALS: Trials = &[
    ("custom_servers_serve", custom_servers_serve),
    ("custom_server_with_a_configuration_serves", custom_server_with_a_configuration_serves),
    ("server_that_does_not_serve_is_reported", server_that_does_not_serve_is_reported),
];

/// A server that keeps what is put, with a log that `haul` can count.
const SERVER: &str = r#"
import http.server, os, ssl, sys
address, port, folder, log = sys.argv[1:5]
log = open(log, "a", buffering=1)
class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def __init__(self, *args):
        super().__init__(*args, directory=folder)
    def do_PUT(self):
        with open(self.translate_path(self.path), "wb") as file:
            file.write(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_request(self, code="-", size="-"):
        log.write('- - - [-] "%s" %s %s\n' % (self.requestline, int(code), size))
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer((address, int(port)), Handler)
if len(sys.argv) > 5:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[5], sys.argv[6])
    server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"#;

/// `haul lab run small.toml` with a server of the user's own.
fn on_server(room: &Room, server: &str, arguments: &[&str]) -> Command {
    let mut command = room.command(HAUL);
    command.args(["lab", "run", "small.toml", "--workload", "upload", "--contender", "curl"]).args(arguments);
    command.args(["--with-server", server]).current_dir(room.path("."));
    command
}

fn custom_servers_serve() {
    if !has("python3") {
        return;
    }
    for (tls, text) in [
        ("false", "python3 server.py {address} {port} {dir} {access-log}"),
        ("true", "exec python3 server.py {address} {port} {dir} {access-log} {cert} {key}"),
    ] {
        let room = room();
        fs::write(room.path("server.py"), SERVER).unwrap();
        let ended = run(&room, on_server(&room, text, &[]));
        ended.success();
        let kept = results(&room);
        let cell = cell(&kept, "curl", "upload");
        assert_eq!((cell["status"].as_str(), reason(cell)), (Some("ok"), ""), "{cell:#}");
        assert_eq!((&cell["methods"]["PUT"], cell["requests"].as_u64()), (&3.into(), Some(3)), "{cell:#}");
        assert_eq!((kept["settings"]["tls"].as_str(), &kept["settings"]["server"]), (Some(tls), &"python3".into()));
        assert_eq!(ended.said.iter().any(|line| line.contains("HTTP without TLS")), tls == "false", "{:?}", ended.said);
        assert!(cell["server_cpu_s"].is_number(), "{cell:#}");
    }
}

/// The example of the book. A packaged nginx that was never started has no folders for temporary files of its own.
fn custom_server_with_a_configuration_serves() {
    if !Path::new("/usr/sbin/nginx").exists() && !has("nginx") {
        return;
    }
    let page = include_str!("../../../../docs/src/experiment-file.md");
    let (_, rest) = page.split_once("\n[server.my-nginx]\n").expect("the example");
    let (example, _) = rest.split_once("\n```").expect("its end");
    let room = room();
    with_toml(
        &room,
        r#"["curl", "wget"]"#,
        &format!(
            r#"
[contender.wget]
download = "wget -q --ca-certificate={{ca}} -i {{urls}} -P {{dir}}"
needs = {{ wget = "wget" }}
[server.my-nginx]
{example}
"#
        ),
    );
    let small = fs::read_to_string(room.path("small.toml")).unwrap();
    fs::write(room.path("small.toml"), small.replace("\"apache\", \"nginx\"", "\"my-nginx\"")).unwrap();
    let mut command = room.command(HAUL);
    command.args(["lab", "run", "small.toml", "--workload", "download"]).current_dir(room.path("."));
    run(&room, command).success();
    let kept = results(&room);
    for cell in cells(&kept).iter().filter(|cell| !reason(cell).contains("not installed")) {
        assert_eq!((cell["status"].as_str(), &cell["methods"]["GET"]), (Some("ok"), &3.into()), "{cell:#}");
    }
    assert!(kept["host"]["tools"]["my-nginx"].as_str().unwrap().contains("nginx/"), "{}", kept["host"]["tools"]);
}

fn server_that_does_not_serve_is_reported() {
    let room = room();
    for (server, said) in [
        ("echo {port}; echo no such luck; exit 1", ":8443: its command failed (exit status: 1): 8443 | no such luck"),
        ("setsid sleep 1 & echo not here {port} >&2", "must stay in the foreground: not here 8443"),
    ] {
        let ended = run(&room, on_server(&room, server, &[]));
        assert!(ended.failure().contains(said), "{:?}", ended.said);
        assert!(!room.path("runs").exists());
    }
}
