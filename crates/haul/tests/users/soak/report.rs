//! What the users' work has shown, and whether all of it is as it must be.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use super::{
    Bars, Plan, RATE, RTT,
    user::{TASKS, Work, name},
};

/// Prints what was measured; an error says what is wrong.
pub(super) fn judge(
    folder: &Path,
    plan: &Plan,
    bars: &Bars,
    works: &[Work],
    memory: &[u64],
    broken: &str,
) -> Result<(), String> {
    let errors: Vec<&str> = works.iter().filter_map(|work| work.error.as_deref()).collect();
    let sum = |of: fn(&Work) -> u64| works.iter().map(of).sum::<u64>();
    println!(
        "{}: {} users for {} s over {RTT} and {RATE}, mean pause {} ms: {} tasks in {} requests, {} MB, {} errors",
        plan.server.name(),
        plan.users,
        plan.seconds,
        plan.pause_ms,
        works.iter().map(|work| work.times.len()).sum::<usize>(),
        sum(|work| work.requests),
        sum(|work| work.bytes) / 1_000_000,
        errors.len()
    );
    for (kind, title) in TASKS.into_iter().enumerate() {
        let of_kind = |work: &&Work| work.times.iter().filter(|(of, _)| *of == kind).map(|(_, time)| *time).collect();
        let mut times: Vec<Duration> = works.iter().flat_map(|work| -> Vec<Duration> { of_kind(&work) }).collect();
        times.sort_unstable();
        if let Some(last) = times.len().checked_sub(1) {
            let at = |share: f64| times[(last as f64 * share) as usize].as_secs_f64() * 1e3;
            println!(
                "  {title:8} {:6} ×: median {:.0} ms, 99th percentile {:.0} ms, longest {:.0} ms",
                times.len(),
                at(0.5),
                at(0.99),
                at(1.0)
            );
        }
    }
    let mut is_fair = true;
    for (kind, is_windows) in [("Windows", true), ("other", false)] {
        let of_kind = works.iter().filter(|work| work.is_windows == is_windows);
        let tasks: Vec<f64> = of_kind.map(|work| work.times.len() as f64).collect();
        if tasks.is_empty() {
            continue;
        }
        let (least, most) = tasks.iter().fold((f64::INFINITY, 0.0_f64), |(a, b), one| (a.min(*one), b.max(*one)));
        let (ratio, jain) = (most / least, jain(&tasks));
        println!(
            "  shares of {kind} users: {least} to {most} tasks, {ratio:.2} × (bar: ≤ {}); Jain's index {jain:.4} (bar: ≥ {})",
            bars.most_to_least, bars.jain
        );
        is_fair &= ratio <= bars.most_to_least && jain >= bars.jain;
    }
    let thirds = thirds(memory).ok_or("the gateway's memory was not sampled")?;
    let allowed = (thirds[1] as f64 * bars.growth) as u64 + bars.growth_bytes;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!(
        "  memory: {:.1}, {:.1}, {:.1} MiB in the first, middle and last third (medians; bar for the last: ≤ {:.1})",
        mib(thirds[0]),
        mib(thirds[1]),
        mib(thirds[2]),
        mib(allowed)
    );
    let mut wrong: Vec<String> = errors.into_iter().map(str::to_owned).collect();
    if !broken.ends_with(" 0") {
        wrong.push(broken.to_owned());
    }
    for (number, work) in works.iter().enumerate() {
        wrong.extend(on_disk(&folder.join("root").join(name(number)), work));
    }
    wrong.extend(server_log(folder));
    wrong.extend(gateway_log(folder, works));
    if !is_fair {
        wrong.push("the shares are not fair".to_owned());
    }
    if thirds[2] > allowed {
        wrong.push("the gateway's memory grows".to_owned());
    }
    let more = wrong.len().saturating_sub(8);
    wrong.truncate(8);
    match (wrong.is_empty(), more) {
        (true, _) => Ok(()),
        (false, 0) => Err(wrong.join("\n")),
        (false, more) => Err(format!("{}\nand {more} more", wrong.join("\n"))),
    }
}

/// Jain's fairness index: 1 if all have the same, 1 ÷ n if one has everything (Jain, Chiu and Hawe, 1984).
fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    sum * sum / (shares.len() as f64 * shares.iter().map(|share| share * share).sum::<f64>())
}

/// The median of each third of the samples.
fn thirds(samples: &[u64]) -> Option<[u64; 3]> {
    let third = samples.len() / 3;
    let median = |part: &[u64]| {
        let mut part = part.to_vec();
        part.sort_unstable();
        part[part.len() / 2]
    };
    (third > 0).then(|| [0, 1, 2].map(|number| median(&samples[number * third..(number + 1) * third])))
}

/// What is wrong with a user's files at the server.
fn on_disk(folder: &Path, work: &Work) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, content) in &work.files {
        let path = folder.join(name);
        match fs::read(&path) {
            Ok(found) if found == *content => {}
            Ok(found) => {
                wrong.push(format!("{}: {} bytes, not the {} saved", path.display(), found.len(), content.len()));
            }
            Err(error) => wrong.push(format!("{}: {error}", path.display())),
        }
    }
    let listed = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let known = |name: &str| name == ".DAV" || work.files.contains_key(name);
    // A task that failed may have left anything.
    let others = listed.filter_map(|name| name.into_string().ok()).filter(|name| work.error.is_none() && !known(name));
    wrong.extend(others.map(|name| format!("{}: nobody has saved it", folder.join(name).display())));
    wrong
}

/// Who asked for which path, from each line of a log in the common format; but for a gateway's look at the server when it
/// starts, which is nobody's.
fn entries(log: &str) -> impl Iterator<Item = (&str, &str)> {
    log.lines().filter(|line| !line.contains(" - - [") || !line.contains("\"OPTIONS ")).filter_map(|line| {
        let user = line.split(' ').nth(2)?;
        Some((user, line.split('"').nth(1)?.split(' ').nth(1)?))
    })
}

/// Requests in the server's log for a folder that is not their user's.
fn server_log(folder: &Path) -> Vec<String> {
    let log = fs::read_to_string(folder.join("access.log")).unwrap_or_default();
    if log.is_empty() {
        return vec!["the server has no access log".to_owned()];
    }
    let strange = |(user, path): &(&str, &str)| !path.starts_with(&format!("/{user}/"));
    entries(&log)
        .filter(strange)
        .map(|(user, path)| format!("the server has a request of `{user}` for {path}"))
        .collect()
}

/// Users whose requests are not all in the gateway's log under their name.
fn gateway_log(folder: &Path, works: &[Work]) -> Vec<String> {
    let log = fs::read_to_string(folder.join("gateway.log")).unwrap_or_default();
    let mut lines: BTreeMap<&str, u64> = BTreeMap::new();
    entries(&log).for_each(|(user, _)| *lines.entry(user).or_default() += 1);
    let wrong = works.iter().enumerate().filter_map(|(number, work)| {
        let name = name(number);
        let logged = lines.get(name.as_str()).copied().unwrap_or_default();
        let is_right = logged == work.requests || work.error.is_some();
        (!is_right).then(|| format!("{name} sent {} requests, and the gateway's log has {logged}", work.requests))
    });
    wrong.collect()
}
