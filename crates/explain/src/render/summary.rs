//! What all forms of the explanation share: the ranking of transfers, and the answer in a sentence or two.

use std::{
    collections::{HashMap, HashSet},
    fmt::Write as _,
    time::Duration,
};

use super::{
    failures::{self, failures, fallbacks},
    notes,
    queue_from_the_start::queue_from_the_start,
};
use crate::{
    Cause, CauseTimes, Connection, Direction, Failure, PageLoad, PairedConnection, Transfer, Vantage,
    analyse::MIN_COST,
    number_format::{ms, percent, plural},
    page_loads,
    replica::PredictionError,
    time_text,
};

/// What a transfer is called: its request and status; where they cannot be read, by its place in its connection, which is
/// the one with this index.
pub(super) fn name(index: usize, connection: &Connection, transfer: &Transfer) -> String {
    match (&*transfer.request, transfer.bytes) {
        ("", 0) => format!("connect {}", index + 1),
        ("", _) => {
            let number = connection.transfers.iter().position(|other| std::ptr::eq(other, transfer)).unwrap_or(0) + 1;
            format!("{} {number} of connection {}", transfer.direction.name(), index + 1)
        }
        (request, _) if transfer.status.is_empty() => request.to_owned(),
        (request, _) => format!("{request} → {}", transfer.status),
    }
}

/// All transfers with the index of their connection, those that lost most first.
pub(super) fn ranked(connections: &[PairedConnection]) -> Vec<(usize, &Transfer)> {
    let each = connections.iter().enumerate();
    let mut ranked: Vec<_> = each
        .flat_map(|(index, paired)| paired.connection.transfers.iter().map(move |transfer| (index, transfer)))
        .collect();
    // A stable sort: transfers that lost the same stay in their order.
    ranked.sort_by_key(|(_, transfer)| std::cmp::Reverse((transfer.avoidable(), transfer.duration)));
    ranked
}

/// The avoidable causes of a transfer that took too little for a finding and that a single option removes, each in a line.
pub(super) fn also(transfer: &Transfer) -> impl Iterator<Item = String> {
    let is_found = |cause: Cause| transfer.findings.iter().any(|finding| finding.cause == cause);
    let ranked = transfer.times.ranked().into_iter();
    ranked.filter(move |(cause, time)| cause.is_avoidable() && *time >= MIN_COST && !is_found(*cause)).filter_map(
        |(cause, time)| {
            let share = percent(time, transfer.times.sum());
            Some(format!("also: {}, {share} % ({}): `{}`", cause.title(), ms(time), cause.rule().switch?))
        },
    )
}

/// Why nothing is predicted for a transfer, and what to capture instead; none if something is, or if it carried nothing.
pub(super) fn declined(connection: &Connection, transfer: &Transfer) -> Option<String> {
    let sender = match transfer.direction {
        Direction::Upload => Vantage::Client,
        Direction::Download => Vantage::Server,
    };
    let reason = match transfer.prediction() {
        Some(Ok(_)) => return None,
        Some(Err(error @ PredictionError::Declined { .. })) => error.to_string(),
        Some(Err(error)) => return Some(error.to_string()),
        None if transfer.bytes == 0 => return None,
        None => match connection.only_from {
            Some(side) => format!("no prediction: only the {}'s packets were captured", side.name()),
            None if connection.is_rtt_unknown => "no prediction: nothing shows how long a round trip takes".to_owned(),
            None => return None,
        },
    };
    let instead = if connection.only_from.is_some() {
        "capture both directions, with `host` and `port` as filters, not `src` or `dst`".to_owned()
    } else if connection.vantage != sender {
        format!("capture at the {}, which sends most of it, from the first packet on", sender.name())
    } else if connection.isn.is_none() {
        "capture the connection from its first packet on".to_owned()
    } else {
        "capture the transfer again while nothing else keeps the machines or the link busy".to_owned()
    };
    Some(format!("{reason}; {instead}"))
}

/// A sentence, with a capital letter and a full stop.
pub(super) fn sentence(mut text: String) -> String {
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    text + "."
}

/// The answer for ranked transfers, in a sentence or two.
pub(super) fn answer(connections: &[PairedConnection], transfers: &[(usize, &Transfer)], packets: u64) -> String {
    let tried = fallbacks(connections);
    let mut sentences = failures(connections, &tried);
    let has_failed = !sentences.is_empty();
    // Where no response came, there is nothing to speed up.
    let is_abandoned = |index: usize| {
        let ending = connections[index].connection.ending.as_ref();
        ending.is_some_and(|ending| ending.failure == Failure::Abandoned)
    };
    if !has_failed || transfers.iter().any(|(index, transfer)| transfer.bytes > 0 && !is_abandoned(*index)) {
        sentences.push(cost(connections, transfers, packets, has_failed));
        sentences.extend(queue_from_the_start(connections, transfers));
    }
    sentences.extend(failures::tried_first(connections, &tried));
    sentences.join(" ")
}

/// What cost the user most: over all page loads, along their critical paths, and all other transfers, one after another.
/// `has_failed` says that a failure is reported before it.
fn cost(connections: &[PairedConnection], transfers: &[(usize, &Transfer)], packets: u64, has_failed: bool) -> String {
    let Some((index, _)) = transfers.first() else {
        let why = match packets {
            0 => "the capture contains no packets; check its filter and its interface".to_owned(),
            _ => format!(
                "no TCP connection carries data in {}; UDP, and so HTTP/3, is not explained",
                plural(packets, "packet")
            ),
        };
        return format!("Nothing to explain: {why}.");
    };
    if transfers.iter().all(|(index, _)| connections[*index].connection.only_from.is_some()) {
        return format!("Nothing to explain: {}", notes::one_direction(connections.len() as u64));
    }
    if transfers.iter().all(|(index, _)| connections[*index].connection.is_rtt_unknown) {
        return "Nothing to explain: the capture begins after the handshake, and nothing in it shows how long a round trip to the \
                sender takes, so what the transfers waited for is unknown. Capture the connection from its beginning, with 100 \
                bytes of each packet or more: `tcpdump -s 100`."
            .to_owned();
    }
    let tried = fallbacks(connections);
    // Attempts that another one followed carried nothing.
    let mut transfers = transfers.to_vec();
    if transfers.iter().any(|(index, _)| !tried.contains_key(index)) {
        transfers.retain(|(index, _)| !tried.contains_key(index));
    }
    let transfers = &transfers[..];
    let whole = whole(connections, transfers, &tried);
    // A long transfer in the background may be the whole critical path, and what the others waited for would not show.
    let mut each = CauseTimes::default();
    for (index, transfer) in transfers {
        let times = if is_own_page(&connections[*index], transfer) {
            transfer.times.of_all_connections()
        } else {
            transfer.times
        };
        times.ranked().into_iter().for_each(|(cause, time)| each[cause] += time);
    }
    // Whether a client thought, or was busy on another connection, only the critical path tells.
    each[Cause::ClientThink] = 0;
    let healthy = transfers.iter().filter(|(_, transfer)| transfer.findings.is_empty()).count();
    let found = [&whole, &each].into_iter().find_map(|times| Some((worst_cause(times, transfers)?, times.sum())));
    let Some(((cause, time), total)) = found else {
        let total = whole.sum();
        let (cause, time) = whole.ranked().first().copied().unwrap_or((Cause::Propagation, 0));
        let what = match transfers.len() {
            1 => "The transfer took".to_owned(),
            all => format!("The {all} transfers took"),
        };
        let verdict = if has_failed { "Apart from that," } else { "Healthy:" };
        let healthy = format!(
            "{verdict} nothing is worth a change. {what} {}, {} % of it: {}. The RTT is {}.",
            time_text(Duration::from_nanos(total)),
            percent(time, total),
            cause.title(),
            time_text(connections[*index].connection.rtt)
        );
        let healthy = healthy + &one_after_another(cause, time, connections[*index].connection.rtt, transfers.len());
        let is_path = cause == Cause::PathRate;
        return if is_path && transfers.iter().all(|(index, transfer)| is_away(&connections[*index], transfer)) {
            format!(
                "{healthy} A shaper in the sender's host would look the same from here; capture there to tell them apart."
            )
        } else {
            healthy
        };
    };
    let scope = match transfers.len() {
        1 => String::new(),
        all => format!(" in {all} transfers ({healthy} healthy)"),
    };
    let mut text = format!(
        "{} of {} ({} %) were lost{scope}: {}.",
        time_text(Duration::from_nanos(time)),
        time_text(Duration::from_nanos(total)),
        percent(time, total),
        cause.title()
    );
    let of_cause = |(_, transfer): &&(usize, &Transfer)| transfer.findings.iter().any(|finding| finding.cause == cause);
    let Some((_, example)) = transfers.iter().filter(of_cause).max_by_key(|(_, transfer)| transfer.times[cause]) else {
        return text;
    };
    let finding = example.findings.iter().find(|finding| finding.cause == cause);
    if let Some(finding) = finding
        && let (Some(what_if), Some(predicted)) = (&finding.what_if, example.without(finding))
        && predicted.duration < example.duration.mul_f64(0.95)
    {
        let (after, before) = (time_text(predicted.duration), time_text(example.duration));
        let _ = match transfers.len() {
            1 => write!(text, " With {what_if}, it would take {after}."),
            _ => write!(text, " With {what_if}, the one that lost most to it would take {after} instead of {before}."),
        };
    }
    text
}

/// A hint for many small exchanges that each took a round trip.
fn one_after_another(cause: Cause, time: u64, rtt: Duration, transfers: usize) -> String {
    let trips = (u128::from(time) + rtt.as_nanos() / 2) / rtt.as_nanos().max(1);
    if cause != Cause::Propagation || transfers < MANY || trips < MANY as u128 {
        return String::new();
    }
    format!(" That is {trips} round trips, one after another: fewer, larger or concurrent requests would save them.")
}

/// Whether a transfer shared its link mostly with other connections to the same server, as those of a browser: together, they
/// are one user's.
fn is_own_page(paired: &PairedConnection, transfer: &Transfer) -> bool {
    let [_, server] = paired.connection.end_names();
    let shared = transfer.findings.iter().find(|finding| finding.cause == Cause::SharedLink);
    let Some(neighbours) = shared.map(|finding| &finding.neighbours) else { return false };
    let all: u64 = neighbours.iter().map(|neighbour| neighbour.bytes).sum();
    let own = neighbours.iter().find(|neighbour| neighbour.server == server);
    own.is_some_and(|own| own.connections >= 2 && own.bytes * 2 >= all)
}

/// The number of exchanges, and of round trips, that are many.
const MANY: usize = 10;

/// Whether a transfer was captured away from its sender.
fn is_away(paired: &PairedConnection, transfer: &Transfer) -> bool {
    let sender = if transfer.direction == Direction::Upload { Vantage::Client } else { Vantage::Server };
    paired.connection.vantage != sender
}

/// The smallest share of the whole time that makes a headline, in whole per cent, as it is printed.
const MIN_SHARE: u64 = 10;

/// The avoidable cause that took most of these times, if that is worth a change in a transfer.
fn worst_cause(times: &CauseTimes, transfers: &[(usize, &Transfer)]) -> Option<(Cause, u64)> {
    let is_worth = |(cause, time): &(Cause, u64)| {
        let found =
            |(_, transfer): &(usize, &Transfer)| transfer.findings.iter().any(|finding| finding.cause == *cause);
        cause.is_avoidable() && percent(*time, times.sum()) >= MIN_SHARE && transfers.iter().any(found)
    };
    times.ranked().into_iter().find(is_worth)
}

fn sum<'a>(times: impl Iterator<Item = &'a CauseTimes>) -> CauseTimes {
    let mut sum = CauseTimes::default();
    for (cause, time) in times.flat_map(CauseTimes::ranked) {
        sum[cause] += time;
    }
    sum
}

/// The time by cause that users waited: what ran at the same time as something else on a page counts once.
///
/// `tried` are attempts to connect that others followed: they are what their client did before these.
fn whole(
    connections: &[PairedConnection],
    transfers: &[(usize, &Transfer)],
    tried: &HashMap<usize, usize>,
) -> CauseTimes {
    let pages = page_loads(connections);
    // Those of a client in a capture do not overlap, and are in order.
    let client = |index: usize| (connections[index].capture, connections[index].connection.client.ip());
    let mut by_client: HashMap<_, Vec<&PageLoad>> = HashMap::new();
    for page in &pages {
        let own = page.path.first().map(|step| client(step.connection));
        by_client.entry(own).or_default().push(page);
    }
    let is_in_page = |(index, transfer): &(usize, &Transfer)| {
        let own = by_client.get(&Some(client(*index))).map_or(&[][..], Vec::as_slice);
        let begun = own.partition_point(|page| page.start < transfer.start + transfer.duration);
        own[..begun].last().is_some_and(|page| transfer.start < page.start + page.duration)
    };
    let alone = transfers.iter().filter(|one| !is_in_page(one)).map(|(_, transfer)| &transfer.times);
    let mut times = sum(pages.iter().map(|page| &page.times).chain(alone));
    let followed: HashSet<usize> = pages.iter().flat_map(|page| &page.path).map(|step| step.connection).collect();
    for (first, next) in tried.iter().filter(|(_, next)| followed.contains(next)) {
        let took = connections[*next].connection.start.saturating_sub(connections[*first].connection.start);
        let took = times[Cause::ClientThink].min(took.as_nanos() as u64);
        times[Cause::ClientThink] -= took;
        times[Cause::Connect] += took;
    }
    times
}
