//! Checks an experiment file: every name must refer to something, and every quantity must be in range.

use std::collections::BTreeSet;

use toml::Spanned;

use super::{
    Experiment, Known, KnownContender, Network, Quick, Row, SERVER, Source, Workload,
    did_you_mean::advice,
    file::{Claim as ClaimText, Ends, File, Named, Quick as QuickText, Sweep},
    mistake::Fault,
    workload::work,
};
use crate::{claims::Claim, contenders::Parameters};

/// The kind of a name that must be one of the experiment's `contenders`.
const LISTED: [&str; 2] = ["contender", " in this experiment"];

/// The maximum that [`stats`](crate::stats) is written for; more than enough to detect any difference.
pub(super) const MOST_SAMPLES: u32 = 100;

pub(super) fn experiment(mut file: File, name: String, known: Known<'_>) -> Result<Experiment, Fault> {
    let names = Names::of(&file, known)?;
    let workloads = in_order(&file.workload)
        .map(|(name, workload)| {
            let text = workload.get_ref();
            Ok(Workload {
                name: name.to_owned(),
                work: work(text.kind, text.amounts(), workload)?,
                networks: pick(&text.networks, ["network", ""], &names.networks)?,
                contenders: pick(&text.contenders, LISTED, &names.all_names())?,
            })
        })
        .collect::<Result<Vec<_>, Fault>>()?;
    let samples = samples(&file.samples)?;
    let quick = file.quick.as_ref().map(|quick| self::quick(quick, &file, &names, &workloads, samples)).transpose()?;
    let mut ends = std::mem::take(&mut file.ends);
    let networks = in_order(&file.network)
        .map(|(name, link)| {
            let Ends { note, server } = ends.remove(name).unwrap_or_default();
            Network { name: name.to_owned(), link: link.clone(), note, server, variant_of: None }
        })
        .collect();
    let conditions = conditions(&file.source.conditions, &names)?;
    Ok(Experiment {
        name,
        networks,
        workloads,
        samples,
        warmup: file.warmup,
        tls: file.tls,
        quick,
        servers: servers(&file, known.servers)?,
        custom_servers: std::mem::take(&mut file.custom.servers),
        claims: claims(file.claim, &names)?,
        contenders: names.rows,
        title: file.title,
        question: file.question,
        source: Source {
            title: file.source.title,
            author: file.source.author,
            at: file.source.url.or(file.source.file),
            conditions,
        },
        added: Vec::new(),
    })
}

/// The conditions of the source, each about something that the experiment has.
fn conditions(texts: &Named<String>, names: &Names) -> Result<Vec<(String, String)>, Fault> {
    let known: Vec<String> =
        [SERVER.to_owned()].into_iter().chain(names.networks.clone()).chain(names.all_names()).collect();
    let kind = ["name", "; a condition is about the `server`, a network or a contender"];
    for name in texts.keys() {
        find(name, kind, &known)?;
    }
    Ok(in_order(texts).map(|(name, text)| (name.to_owned(), text.clone())).collect())
}

/// The names that other parts of the file may refer to.
struct Names {
    networks: Vec<String>,
    workloads: Vec<String>,
    rows: Vec<Row>,
}

impl Names {
    fn of(file: &File, known: Known<'_>) -> Result<Self, Fault> {
        Ok(Self {
            networks: in_order(&file.network).map(|(name, _)| name.to_owned()).collect(),
            workloads: in_order(&file.workload).map(|(name, _)| name.to_owned()).collect(),
            rows: rows(file, &file.custom.known(known.contenders)?)?,
        })
    }

    fn row_names(&self) -> Vec<String> {
        self.rows.iter().map(Row::name).collect()
    }

    /// The rows' names, and those of contenders with several rows.
    fn all_names(&self) -> Vec<String> {
        let mut names = self.row_names();
        names.extend(
            self.rows
                .iter()
                .map(|row| row.contender.clone())
                .filter(|name| !names.contains(name))
                .collect::<BTreeSet<_>>(),
        );
        names
    }
}

/// The entries in the order in which the file has them.
fn in_order<T>(entries: &Named<T>) -> impl Iterator<Item = (&str, &T)> {
    let mut entries: Vec<_> = entries.iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    entries.into_iter().map(|(name, entry)| (name.get_ref().as_str(), entry))
}

/// The name, if it is one of `names`. `kind` says what it names, and where from: `["contender", " in this experiment"]`.
fn find<S: AsRef<str>>(name: &Spanned<String>, kind: [&str; 2], names: &[S]) -> Result<String, Fault> {
    let [what, scope] = kind;
    if names.iter().any(|known| known.as_ref() == name.get_ref()) {
        return Ok(name.get_ref().clone());
    }
    let advice = advice(name.get_ref(), names.iter().map(AsRef::as_ref));
    Err(Fault::new(name.span(), format!("unknown {what} `{}`{scope}; {advice}", name.get_ref())))
}

/// The names of a list, each once, each one of `names`, at least one.
fn pick<S: AsRef<str>>(list: &[Spanned<String>], kind: [&str; 2], names: &[S]) -> Result<Vec<String>, Fault> {
    let mut seen = BTreeSet::new();
    for name in list {
        if !seen.insert(name.get_ref()) {
            return Err(Fault::new(name.span(), format!("duplicate {} `{}`", kind[0], name.get_ref())));
        }
    }
    list.iter().map(|name| find(name, kind, names)).collect()
}

fn samples(samples: &Spanned<u32>) -> Result<u32, Fault> {
    if (1..=MOST_SAMPLES).contains(samples.get_ref()) {
        return Ok(*samples.get_ref());
    }
    let message = format!("a cell takes 1 to {MOST_SAMPLES} samples, not {}", samples.get_ref());
    Err(Fault::new(samples.span(), message))
}

fn rows(file: &File, known: &[KnownContender<'_>]) -> Result<Vec<Row>, Fault> {
    let names: Vec<&str> = known.iter().map(|contender| contender.name).collect();
    let listed = pick(&file.contenders, ["contender", ""], &names)?;
    for table in &file.custom.contenders {
        let name = table.contender.name();
        if !listed.iter().any(|listed| listed == name) {
            let why = format!("contender `{name}` takes no part; add it to `contenders`");
            return Err(Fault::new(table.name_span(), why));
        }
    }
    for name in file.contender.keys() {
        find(name, LISTED, &listed)?;
    }
    let nothing = Named::new();
    let mut rows = Vec::new();
    for contender in listed.iter().filter_map(|name| known.iter().find(|known| known.name == name)) {
        let settings = file.contender.get(contender.name).unwrap_or(&nothing);
        for (key, sweep) in settings {
            find(key, ["setting", &format!(" of {}", contender.name)], &contender.settings)?;
            values(key, sweep)?;
        }
        let custom = file.custom.contender(contender.name);
        for settings in swept(settings) {
            if let Some((table, (step, why))) =
                custom.and_then(|table| Some((table, table.contender.unset(&settings)?)))
            {
                return Err(Fault::new(table.span(step.key()), why));
            }
            rows.push(Row {
                contender: contender.name.to_owned(),
                settings,
                model: contender.model,
                requests_of: contender.requests_of.map(str::to_owned),
                custom: custom.map(|table| table.contender.clone()),
            });
        }
    }
    Ok(rows)
}

/// The servers of the list, of those that come with the program and those that the file describes.
fn servers(file: &File, ours: &[&str]) -> Result<Vec<String>, Fault> {
    let own = file.custom.servers.iter().map(|server| server.name());
    let all: Vec<&str> = ours.iter().copied().chain(own).collect();
    pick(&file.servers, ["server", ""], &all)
}

/// The values of a setting, each once.
fn values(key: &Spanned<String>, sweep: &Sweep) -> Result<(), Fault> {
    let values = sweep.values();
    let distinct: BTreeSet<_> = values.iter().collect();
    let complaint = if values.is_empty() {
        "has no value"
    } else if distinct.len() < values.len() {
        "has a duplicate value"
    } else {
        return Ok(());
    };
    Err(Fault::new(key.span(), format!("setting `{}` {complaint}", key.get_ref())))
}

impl Sweep {
    fn values(&self) -> &[u32] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Many(values) => values,
        }
    }
}

/// Every combination of the settings' values; without settings, one empty combination.
fn swept(settings: &Named<Sweep>) -> Vec<Parameters> {
    in_order(settings).fold(vec![Parameters::new()], |combinations, (key, sweep)| {
        combinations
            .iter()
            .flat_map(|set| {
                sweep.values().iter().map(move |value| {
                    let mut set = set.clone();
                    set.insert(key.to_owned(), *value);
                    set
                })
            })
            .collect()
    })
}

fn quick(text: &QuickText, file: &File, names: &Names, whole: &[Workload], samples: u32) -> Result<Quick, Fault> {
    let chosen = |list: &Option<Vec<Spanned<String>>>, kind: [&str; 2], all: &[String]| match list {
        Some(list) => pick(list, kind, all),
        None => Ok(all.to_vec()),
    };
    let mut workloads = Vec::new();
    for (name, amounts) in &text.workload {
        find(name, ["workload", ""], &names.workloads)?;
        let text = file.workload[name.get_ref().as_str()].get_ref();
        let work = work(text.kind, amounts.clone().or(text.amounts()), name)?;
        let same = whole.iter().find(|workload| workload.name == *name.get_ref()).cloned();
        workloads.extend(same.map(|same| Workload { work, ..same }));
    }
    let smaller = |name: String| {
        let it = |workload: &&Workload| workload.name == name;
        workloads.iter().find(it).or_else(|| whole.iter().find(it)).cloned()
    };
    Ok(Quick {
        networks: chosen(&text.networks, ["network", ""], &names.networks)?,
        workloads: chosen(&text.workloads, ["workload", ""], &names.workloads)?
            .into_iter()
            .filter_map(smaller)
            .collect(),
        contenders: chosen(&text.contenders, LISTED, &names.all_names())?,
        samples: text.samples.as_ref().map_or(Ok(samples), self::samples)?,
    })
}

fn claims(texts: Vec<ClaimText>, names: &Names) -> Result<Vec<Claim>, Fault> {
    let mut seen = BTreeSet::new();
    let rows = names.row_names();
    texts
        .into_iter()
        .map(|text| {
            if !seen.insert(text.id.get_ref().clone()) {
                return Err(Fault::new(text.id.span(), format!("duplicate claim `{}`", text.id.get_ref())));
            }
            let span = text.check.span();
            let check = text
                .check
                .into_inner()
                .with_names(|name| find(&name, LISTED, &rows), |name| find(&name, ["network", ""], &names.networks))?;
            match check.complaint() {
                Some(complaint) => Err(Fault::new(span, complaint)),
                None => Ok(Claim {
                    id: text.id.into_inner(),
                    said: text.said,
                    workload: find(&text.workload, ["workload", ""], &names.workloads)?,
                    network: find(&text.network, ["network", ""], &names.networks)?,
                    check,
                    refuted_by: text.refuted_by,
                }),
            }
        })
        .collect()
}
