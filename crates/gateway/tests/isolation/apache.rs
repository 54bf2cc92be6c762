//! Apache, with a folder for each user.

use std::{fs, time::Duration};

use servers::Apache;

use crate::{
    passwords::password_line,
    raw::ask_with,
    upstream::{USERS, basic, gateway_to},
};

fn start() -> Option<Apache> {
    let all = "<Directory \"ROOT/files\">\nDav On\nAuthType Basic\nAuthName x\nAuthUserFile \"FOLDER/users\"\nRequire valid-user\n</Directory>\n";
    let own = USERS.map(|user| format!("<Directory \"ROOT/files/{user}\">\nRequire user {user}\n</Directory>\n"));
    let directives = all.to_owned() + &own.concat();
    Apache::start(&["auth_basic", "authn_core", "authn_file", "authz_user"], &directives, |folder| {
        fs::write(folder.join("users"), USERS.map(password_line).concat()).unwrap();
        for user in USERS {
            let own = folder.join("root/files").join(user);
            fs::create_dir(&own).unwrap();
            fs::write(own.join("same"), format!("data of {user}")).unwrap();
        }
    })
}

#[tokio::test]
async fn users_reach_their_own_folders_only() {
    let Some(apache) = start() else { return };
    let (_service, gateway, _log, running) = gateway_to(apache.address, Duration::from_mins(10));
    let lock = r#"<D:lockinfo xmlns:D="DAV:"><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockinfo>"#;
    for (owner, other) in [("ann", "bob"), ("bob", "cy"), ("cy", "ann")] {
        let own = basic(owner);
        // What the owner does warms all that is kept.
        for _ in 0..3 {
            let listed = ask_with(gateway, &own, &format!("PROPFIND /files/{owner}/"), &[("Depth", "1")], "").await;
            assert!(listed.status == 207 && listed.body.contains("same"), "control: {listed:?}");
            let got = ask_with(gateway, &own, &format!("GET /files/{owner}/same"), &[], "").await;
            assert_eq!(got.body, format!("data of {owner}"), "control");
        }
        let locked = ask_with(gateway, &own, &format!("LOCK /files/{owner}/same"), &[], lock).await;
        assert_eq!(locked.status, 200, "control: {locked:?}");
        let from = locked.body.find("opaquelocktoken:").unwrap();
        let token = locked.body[from..].split('<').next().unwrap();
        let (held, named) = (format!("(<{token}>)"), format!("<{token}>"));
        for path in [
            format!("/files/{owner}/same"),
            format!("/files/{owner}/none"),
            format!("/files/{owner}/"),
            format!("/files/./{owner}/same"),
            format!("/files/{other}/../{owner}/same"),
            format!("/files/{other}/%2e%2e/{owner}/same"),
            format!("/files/{other}%2f..%2f{owner}/same"),
            format!("/files//{owner}/same"),
            format!("/files/%{:02x}{}/same", owner.as_bytes()[0], &owner[1..]),
            format!("/files/{other}/%252e%252e/{owner}/same"),
            format!("/files/{other}\\..\\{owner}\\same"),
            format!("http://{}/files/{owner}/same", apache.address),
        ] {
            for (method, body) in [
                ("GET", ""),
                ("HEAD", ""),
                ("PROPFIND", ""),
                ("PUT", "stolen"),
                ("DELETE", ""),
                ("LOCK", lock),
                ("UNLOCK", ""),
                ("PROPPATCH", ""),
            ] {
                let fields = [("Depth", "0"), ("If", &*held), ("Lock-Token", &*named)];
                let fields = if matches!(method, "GET" | "HEAD" | "LOCK") { &fields[..1] } else { &fields[..] };
                let answer = ask_with(gateway, &basic(other), &format!("{method} {path}"), fields, body).await;
                assert!(matches!(answer.status, 400..=412), "{other} {method} {path}: {answer:?}");
                assert!(!answer.body.contains(&format!("data of {owner}")), "{answer:?}");
            }
        }
        for method in ["MOVE", "COPY"] {
            let destination = format!("http://{gateway}/files/{owner}/same");
            let fields = [("Destination", &*destination), ("If", &held), ("Overwrite", "T")];
            let answer = ask_with(gateway, &basic(other), &format!("{method} /files/{other}/same"), &fields, "").await;
            assert!(matches!(answer.status, 401..=412 | 502), "{method}: {answer:?}");
            let destination = format!("http://{gateway}/files/{other}/{method}");
            let answer = ask_with(
                gateway,
                &basic(other),
                &format!("{method} /files/{owner}/same"),
                &[("Destination", &destination)],
                "",
            )
            .await;
            assert!(matches!(answer.status, 401..=403), "{method}: {answer:?}");
        }
        let put = ask_with(gateway, &own, &format!("PUT /files/{owner}/same"), &[("If", &held)], "saved").await;
        assert_eq!(put.status, 204, "control: the token works for its owner: {put:?}");
        let unlocked =
            ask_with(gateway, &own, &format!("UNLOCK /files/{owner}/same"), &[("Lock-Token", &named)], "").await;
        assert_eq!(unlocked.status, 204, "control");
        fs::write(apache.path(&format!("root/files/{owner}/same")), format!("data of {owner}")).unwrap();
    }
    for user in USERS {
        let names: Vec<_> = fs::read_dir(apache.path(&format!("root/files/{user}")))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .filter(|name| name != ".DAV")
            .collect();
        assert_eq!(names, ["same"], "{user}");
    }
    running.abort();
}
