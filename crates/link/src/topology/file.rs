//! The TOML file of a [`Topology`]; every mistake is found before anything runs, and named with its line.

use std::ops::Range;

use serde::{Deserialize, de::DeserializeOwned};
use toml::{
    Spanned,
    de::{DeTable, DeValue, ValueDeserializer},
};

use super::{CablePlan, HostPlan, MAX_CABLES, Topology};
use crate::spec::LinkSpec;

/// A mistake in the file: one sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {message}")]
pub struct TopologyError {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong and what to write instead.
    pub message: String,
}

/// A mistake at a range of bytes.
struct Fault {
    span: Range<usize>,
    message: String,
}

impl Fault {
    fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Self { span, message: message.into() }
    }
}

impl From<toml::de::Error> for Fault {
    fn from(error: toml::de::Error) -> Self {
        Self::new(error.span().unwrap_or_default(), error.message())
    }
}

impl Topology {
    /// Reads the text of a file; `name` is the file's, for errors. The files that it names, such as traces, are not read.
    pub fn parse(text: &str, name: &str) -> Result<Self, TopologyError> {
        parse(text).map_err(|Fault { span, message }| {
            let start = text.floor_char_boundary(span.start);
            TopologyError {
                file: name.to_owned(),
                line: text[..start].matches('\n').count() + 1,
                message: message.replace(char::is_control, " "),
            }
        })
    }
}

type Entry<'a> = (Spanned<String>, Spanned<DeTable<'a>>);

fn parse(text: &str) -> Result<Topology, Fault> {
    let mut document = DeTable::parse(text)?.into_inner();
    let default: Option<Spanned<String>> = take(&mut document, "default")?;
    let gateway: Option<Spanned<String>> = take(&mut document, "gateway")?;
    let hosts = tables(document.remove("host"), "host")?;
    let cables = tables(document.remove("cable"), "cable")?;
    if let Some((key, _)) = document.into_iter().next() {
        let message = format!(
            "unknown key `{}`; there are `default`, `gateway`, `[host.NAME]` and `[cable.NAME]`",
            key.get_ref()
        );
        return Err(Fault::new(key.span(), message));
    }
    if hosts.is_empty() {
        return Err(Fault::new(0..0, "there are no hosts; add a table `[host.NAME]` for each"));
    }
    let names: Vec<Spanned<String>> = hosts.iter().map(|(name, _)| name.clone()).collect();
    let hosts = hosts.into_iter().map(host).collect::<Result<Vec<_>, _>>()?;
    let Some(default) = default else {
        return Err(Fault::new(0..0, "missing key `default`: the name of the host on which the command runs"));
    };
    let default = index_of(&default, &hosts)?;
    let gateway = gateway.map_or(Ok(default), |gateway| index_of(&gateway, &hosts))?;
    if let Some((name, _)) = cables.get(MAX_CABLES) {
        return Err(Fault::new(name.span(), format!("more than {MAX_CABLES} cables")));
    }
    let cable = |(index, entry)| cable(entry, index, &hosts);
    let cables = cables.into_iter().enumerate().map(cable).collect::<Result<Vec<_>, _>>()?;
    let topology = Topology { hosts, cables, default, gateway };
    let distances = topology.distances(&[default]);
    if let Some(lost) = distances.iter().position(Option::is_none) {
        let (lost, from) = (&names[lost], &topology.hosts[default].name);
        let message =
            format!("no cables lead from `{from}` to the host `{}`; add a cable, or remove the host", lost.get_ref());
        return Err(Fault::new(lost.span(), message));
    }
    Ok(topology)
}

/// The tables below a key, in the order of the file.
fn tables<'a>(value: Option<Spanned<DeValue<'a>>>, kind: &str) -> Result<Vec<Entry<'a>>, Fault> {
    let Some(value) = value else { return Ok(Vec::new()) };
    let wrong = |span| Fault::new(span, format!("write a table `[{kind}.NAME]`"));
    let span = value.span();
    let DeValue::Table(table) = value.into_inner() else { return Err(wrong(span)) };
    let mut entries = Vec::new();
    for (name, entry) in table {
        let (name, span) = (Spanned::new(name.span(), name.get_ref().clone().into_owned()), entry.span());
        let DeValue::Table(entry) = entry.into_inner() else { return Err(wrong(name.span())) };
        check_name(&name, kind)?;
        entries.push((name, Spanned::new(span, entry)));
    }
    entries.sort_by_key(|(name, _)| name.span().start);
    Ok(entries)
}

/// A host's name is one in DNS. A cable's name is a part of file names and of changes.
fn check_name(name: &Spanned<String>, kind: &str) -> Result<(), Fault> {
    let text = name.get_ref();
    let is_valid = (1..=63).contains(&text.len())
        && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
        && !text.starts_with('-')
        && !text.ends_with('-');
    // Programs take a number for an IPv4 address (inet_aton(3)), and do not look it up.
    if text.bytes().all(|byte| byte.is_ascii_digit()) && is_valid {
        return Err(Fault::new(name.span(), format!("`{text}` cannot name a {kind}; a name needs a letter")));
    }
    if !is_valid || text == "localhost" {
        let message = format!("`{text}` cannot name a {kind}; use lower-case letters, digits and hyphens, 63 at most");
        return Err(Fault::new(name.span(), message));
    }
    Ok(())
}

/// Removes a key and reads its value.
fn take<T: DeserializeOwned>(table: &mut DeTable<'_>, key: &str) -> Result<Option<Spanned<T>>, Fault> {
    let Some(value) = table.remove(key) else { return Ok(None) };
    let span = value.span();
    let value = T::deserialize(ValueDeserializer::from(value))
        .map_err(|error| Fault::new(span.clone(), format!("`{key}`: {}", error.message())))?;
    Ok(Some(Spanned::new(span, value)))
}

fn host((name, mut table): Entry<'_>) -> Result<HostPlan, Fault> {
    let command = take(table.get_mut(), "command")?.map(Spanned::into_inner);
    let listens = take(table.get_mut(), "listens")?.is_none_or(Spanned::into_inner);
    if let Some((key, _)) = table.into_inner().into_iter().next() {
        return Err(Fault::new(
            key.span(),
            format!("unknown key `{}`; a host has `command` and `listens`", key.get_ref()),
        ));
    }
    Ok(HostPlan { name: name.into_inner(), command, listens })
}

fn index_of(name: &Spanned<String>, hosts: &[HostPlan]) -> Result<usize, Fault> {
    hosts.iter().position(|host| host.name == *name.get_ref()).ok_or_else(|| {
        let known = hosts.iter().map(|host| host.name.as_str()).collect::<Vec<_>>().join(", ");
        Fault::new(name.span(), format!("unknown host `{}`; there are: {known}", name.get_ref()))
    })
}

fn cable((name, mut table): Entry<'_>, index: usize, hosts: &[HostPlan]) -> Result<CablePlan, Fault> {
    let Some(between) = take::<Vec<Spanned<String>>>(table.get_mut(), "between")? else {
        let message = format!("the cable `{}` lacks the key `between`: [\"HOST\", \"HOST\"]", name.get_ref());
        return Err(Fault::new(name.span(), message));
    };
    let [a, b] = between.get_ref().as_slice() else {
        return Err(Fault::new(between.span(), "a cable is between two hosts: [\"HOST\", \"HOST\"]"));
    };
    let ends = [index_of(a, hosts)?, index_of(b, hosts)?];
    if ends[0] == ends[1] {
        return Err(Fault::new(between.span(), format!("both ends of the cable are on the host `{}`", a.get_ref())));
    }
    let has_seed = table.get_ref().contains_key("seed");
    let span = table.span();
    let link = Spanned::new(span.clone(), DeValue::Table(table.into_inner()));
    let mut spec = <LinkSpec as Deserialize>::deserialize(ValueDeserializer::from(link))?;
    // Otherwise all cables would lose the same packets.
    if !has_seed {
        spec.seed += index as u64;
    }
    Ok(CablePlan { name: name.into_inner(), ends, spec })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NET: &str = r#"
default = "client"
[host.client]
[host.router]
[host.server]
command = "serve"
[cable.wan]
between = ["router", "server"]
rtt = "10ms/30ms"
[cable.access]
between = ["client", "router"]
rate = "1mbit"
"#;

    #[test]
    fn file_describes_hosts_and_cables_in_its_order() {
        let net = Topology::parse(NET, "net.toml").unwrap();
        let names: Vec<_> = net.hosts.iter().map(|host| &*host.name).collect();
        assert_eq!(names, ["client", "router", "server"]);
        assert_eq!(net.hosts[2].command.as_deref(), Some("serve"));
        let cables: Vec<_> = net.cables.iter().map(|cable| (&*cable.name, cable.ends, cable.spec.seed)).collect();
        assert_eq!(cables, [("wan", [1, 2], 1), ("access", [0, 1], 2)]);
        assert_eq!(net.cables[0].spec.to_string(), "10ms/30ms RTT");
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let error = |text: &str| Topology::parse(text, "net.toml").unwrap_err().to_string();
        let changed = |from: &str, to: &str| {
            assert!(NET.contains(from), "{from}");
            error(&NET.replace(from, to))
        };
        for (from, to, expected) in [
            ("\"server\"]", "\"sever\"]", "net.toml:8: unknown host `sever`; there are: client, router, server"),
            (
                "[\"router\", \"server\"]",
                "[\"router\", \"router\"]",
                "net.toml:8: both ends of the cable are on the host `router`",
            ),
            ("[\"router\", \"server\"]", "[\"router\"]", "net.toml:8: a cable is between two hosts"),
            ("[\"router\", \"server\"]", "7", "net.toml:8: `between`: "),
            ("between = [\"router\", \"server\"]\n", "", "net.toml:7: the cable `wan` lacks the key `between`"),
            (
                "[host.router]",
                "[host.router]\n[host.island]",
                "net.toml:5: no cables lead from `client` to the host `island`",
            ),
            ("[host.router]", "[host.router]\n[host.router]", "net.toml:5: duplicate key"),
            ("[cable.access]", "[cable.wan]", "net.toml:10: duplicate key"),
            ("default = \"client\"", "default = \"me\"", "net.toml:2: unknown host `me`"),
            ("default = \"client\"", "", "net.toml:1: missing key `default`"),
            ("default = \"client\"", "defualt = 1", "net.toml:2: unknown key `defualt`"),
            ("command =", "comand =", "net.toml:6: unknown key `comand`; a host has `command` and `listens`"),
            ("rate =", "rat =", "net.toml:12: unknown field `rat`"),
            ("\"1mbit\"", "\"fast\"", "net.toml:12: `fast` is not a rate"),
            ("[host.router]", "[host.Router]", "net.toml:4: `Router` cannot name a host"),
            ("[host.router]", "[host.a_b]", "net.toml:4: `a_b` cannot name a host"),
            ("[host.router]", "[host.10]", "net.toml:4: `10` cannot name a host; a name needs a letter"),
            ("[host.router]", "[[host.router]]", "net.toml:4: write a table `[host.NAME]`"),
        ] {
            let said = changed(from, to);
            assert!(said.starts_with(expected), "{said}, not {expected}");
        }
        assert!(error("").starts_with("net.toml:1: there are no hosts"));
        assert!(error("host = 1").starts_with("net.toml:1: write a table"));
        assert!(error("default = ").starts_with("net.toml:1: "));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_in_one_line(
            lines in proptest::collection::vec(proptest::sample::select(NET.lines().collect::<Vec<_>>()), 0..14),
            noise in "(?s:.{0,20})",
        ) {
            for text in [lines.join("\n"), lines.join("\n") + &noise] {
                match Topology::parse(&text, "net.toml") {
                    Ok(net) => prop_assert!(net.default < net.hosts.len()),
                    Err(error) => prop_assert_eq!(error.to_string().lines().count(), 1),
                }
            }
        }
    }
}
