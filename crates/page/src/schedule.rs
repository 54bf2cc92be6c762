//! The load on an ideal network: when each request could be sent, and when its response would arrive.
//!
//! One calculation answers three questions. With only the dependencies, and any number of open connections, it gives the
//! *floor*: the round trips that no protocol can save, plus the bytes. Neither the browser's computation nor the server's
//! think time count for it: they were measured on some machine, and another one may be faster. With the recorded
//! connections, one request at a time on each, and a handshake before the first, it gives the minimum for HTTP/1.1; one
//! round trip less per handshake is the most that TCP Fast Open can save. With an initial window it includes TCP's slow
//! start: a response that does not fit waits for acknowledgements, in round trips.
//!
//! The load ends with the last response that the page's `load` event waits for ([`Spec::timed`]), and what is computed
//! after it ([`Spec::load_event`]); later requests cost nothing. The critical path is the chain of waits that ends with its last byte; its *depth* is its number of requests. It
//! is followed backwards from the end, as in Wang et al. (WProf, NSDI 2013): requests beside it cost nothing.

use std::{collections::HashMap, time::Duration};

use units::Rate;

use crate::{Spec, Until};

/// The network of an ideal load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdealNetwork {
    /// The round-trip time.
    pub rtt: Duration,
    /// The rate towards the client, of all connections together; none: unlimited. Requests are assumed to be short.
    pub rate: Option<Rate>,
    /// The connections of the requests.
    pub connections: Connections,
    /// Whether the recorded computation and think times count.
    pub has_processing: bool,
}

/// The connections of the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connections {
    /// Any number of open connections without slow start.
    Open,
    /// The recorded ones, one request at a time on each, opened when first needed. A request without a connection gets
    /// its own.
    Recorded {
        /// Round trips before the first request: 1 for TCP, 1 for TLS 1.3, less with Fast Open or early data.
        handshake: u32,
        /// The server's initial window in bytes; none: no slow start. The window grows by the acknowledged bytes (RFC
        /// 5681, section 3.1), but only as far as it was used (RFC 7661, section 4.3; in Linux, to twice the bytes in
        /// flight).
        initial_window: Option<u64>,
    },
}

/// Ten segments of 1460 bytes: the usual initial window (RFC 6928).
pub const INITIAL_WINDOW: u64 = 14_600;

/// The times of a load, from its beginning. Indices are those of the spec's requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// When each request could be sent if it had a connection: its dependencies and its computation are done.
    pub ready: Vec<Duration>,
    /// When the connection of each request begins its handshake, if the request is the first on it.
    pub opened: Vec<Option<Duration>>,
    /// When each request is sent.
    pub sent: Vec<Duration>,
    /// When the first byte of each response arrives.
    pub first: Vec<Duration>,
    /// When the last byte of each response arrives.
    pub end: Vec<Duration>,
    /// The requests on the critical path, from the first on.
    pub critical: Vec<usize>,
    /// The `load` event: the last byte has arrived of all responses that it waits for, and the last script has run.
    pub load: Duration,
}

impl Schedule {
    fn empty(requests: usize) -> Self {
        let none = vec![Duration::ZERO; requests];
        Self {
            ready: none.clone(),
            opened: vec![None; requests],
            sent: none.clone(),
            first: none.clone(),
            end: none,
            critical: Vec::new(),
            load: Duration::ZERO,
        }
    }

    /// The number of connections opened on the critical path: the round trips that are saved if each handshake takes
    /// one less.
    pub fn handshakes(&self) -> usize {
        self.critical.iter().filter(|index| self.opened[**index].is_some()).count()
    }
}

impl Spec {
    /// The floor: the minimum load time over this RTT and rate, whatever the protocol, client and server. It consists of
    /// the round trips that cannot be saved, and the bytes.
    pub fn floor(&self, rtt: Duration, rate: Option<Rate>) -> Duration {
        self.schedule(&IdealNetwork { rtt, rate, connections: Connections::Open, has_processing: false }).load
    }

    /// The number of requests in the longest chain of dependencies: so many round trips cannot be saved.
    pub fn depth(&self) -> usize {
        self.critical_path().len()
    }

    /// The requests of the longest chain of dependencies, from the first on; of several, the chain that ends first in
    /// the file.
    pub fn critical_path(&self) -> Vec<usize> {
        let mut chains = vec![(1, None); self.requests.len()];
        for index in self.order().unwrap_or_default() {
            let above = self.requests[index].after.iter().map(|after| after.request);
            let longest = above.max_by_key(|above| (chains[*above].0, usize::MAX - above));
            chains[index] = (longest.map_or(0, |above| chains[above].0) + 1, longest);
        }
        let timed = self.timed();
        let last =
            (0..chains.len()).filter(|index| timed[*index]).max_by_key(|index| (chains[*index].0, usize::MAX - index));
        chain(last, |index| chains[index].1)
    }

    /// The load over `network`.
    pub fn schedule(&self, network: &IdealNetwork) -> Schedule {
        let mut schedule = Schedule::empty(self.requests.len());
        let mut cause = vec![None; self.requests.len()];
        let mut windows = vec![None; self.requests.len()];
        // When each request is sent, plus the server's think time.
        let mut answered = vec![Duration::ZERO; self.requests.len()];
        // The last request on each connection.
        let mut last: HashMap<u32, usize> = HashMap::new();
        for index in self.order().unwrap_or_default() {
            let request = &self.requests[index];
            let [compute, think] = [request.compute, request.response.think]
                .map(|time| if network.has_processing { time } else { Duration::ZERO });
            let comes = |until: &Until, of: usize| match until {
                Until::End => schedule.end[of],
                Until::Head(bytes) => answered[of].saturating_add(arrival(*bytes, windows[of], network)),
            };
            let waits = request.after.iter().map(|after| (comes(&after.until, after.request), after.request));
            let (come, by) = waits.max().map_or((Duration::ZERO, None), |(time, by)| (time, Some(by)));
            let ready = come.saturating_add(compute);
            schedule.ready[index] = ready;
            cause[index] = by;
            schedule.sent[index] = match network.connections {
                Connections::Open => ready,
                Connections::Recorded { handshake, initial_window } => {
                    let before = request.connection.and_then(|number| last.insert(number, index));
                    let (open, sent) = match before {
                        Some(before) if schedule.end[before] > ready => {
                            cause[index] = Some(before);
                            (None, schedule.end[before])
                        }
                        Some(_) => (None, ready),
                        None => (Some(ready), ready.saturating_add(network.rtt.saturating_mul(handshake))),
                    };
                    schedule.opened[index] = open;
                    let before =
                        before.and_then(|before| Some((windows[before]?, self.requests[before].response.size())));
                    windows[index] = before.map_or(initial_window, |(window, used)| Some(grown(window, used)));
                    sent
                }
            };
            answered[index] = schedule.sent[index].saturating_add(think);
            let arrives = |bytes| answered[index].saturating_add(arrival(bytes, windows[index], network));
            (schedule.first[index], schedule.end[index]) = (arrives(1), arrives(request.response.size()));
        }
        let timed = self.timed();
        let ends = (0..self.requests.len()).filter(|index| timed[*index]);
        let loaded = |index: usize| {
            let compute = if network.has_processing { self.compute_after(index) } else { Duration::ZERO };
            schedule.end[index].saturating_add(compute)
        };
        let last = ends.clone().max_by_key(|index| (loaded(*index), usize::MAX - index));
        schedule.load = last.map_or(Duration::ZERO, loaded);
        schedule.critical = chain(last, |index| cause[index]);
        let bytes = ends.map(|index| self.requests[index].response.size()).fold(0, u64::saturating_add);
        let bytes = network.rate.map_or(Duration::ZERO, |rate| rate.time_for(bytes));
        schedule.load = schedule.load.max(network.rtt.saturating_add(bytes));
        schedule
    }

    /// An order in which every request comes after its dependencies and after those before it on its connection; or a
    /// cycle of requests, each waiting for the next.
    pub(crate) fn order(&self) -> Result<Vec<usize>, Vec<usize>> {
        let mut waits: Vec<Vec<usize>> =
            self.requests.iter().map(|request| request.after.iter().map(|after| after.request).collect()).collect();
        let mut last = HashMap::new();
        for (index, request) in self.requests.iter().enumerate() {
            let before = request.connection.and_then(|number| last.insert(number, index));
            waits[index].extend(before);
        }
        let mut open: Vec<usize> = waits.iter().map(Vec::len).collect();
        let mut waiters = vec![Vec::new(); waits.len()];
        for (index, waits) in waits.iter().enumerate() {
            for wait in waits {
                waiters[*wait].push(index);
            }
        }
        let mut order: Vec<usize> = (0..waits.len()).filter(|index| open[*index] == 0).collect();
        let mut at = 0;
        while let Some(index) = order.get(at).copied() {
            at += 1;
            for waiter in &waiters[index] {
                open[*waiter] -= 1;
                if open[*waiter] == 0 {
                    order.push(*waiter);
                }
            }
        }
        let Some(mut index) = open.iter().position(|open| *open > 0) else { return Ok(order) };
        // Every remaining request waits for a remaining one, so following them leads into a cycle.
        let mut seen = vec![None; waits.len()];
        let mut path = Vec::new();
        while seen[index].is_none() {
            seen[index] = Some(path.len());
            path.push(index);
            index = waits[index].iter().copied().find(|wait| open[*wait] > 0).unwrap_or(index);
        }
        Err(path.split_off(seen[index].unwrap_or(0)))
    }
}

/// The causes of `last`, and `last` itself, from the first on.
fn chain(last: Option<usize>, cause: impl Fn(usize) -> Option<usize>) -> Vec<usize> {
    let mut chain: Vec<usize> = std::iter::successors(last, |index| cause(*index)).collect();
    chain.reverse();
    chain
}

/// A congestion window after a response that used so many bytes of it.
fn grown(window: u64, used: u64) -> u64 {
    window.saturating_add(used).min(used.saturating_mul(2)).max(window)
}

/// The time from a request to so many bytes of its response, on a connection with this congestion window.
fn arrival(bytes: u64, window: Option<u64>, network: &IdealNetwork) -> Duration {
    let mut rounds = 0;
    if let Some(mut window) = window.filter(|window| *window > 0) {
        let mut sent = window;
        while sent < bytes {
            window = window.saturating_mul(2);
            sent = sent.saturating_add(window);
            rounds += 1;
        }
    }
    let bytes = network.rate.map_or(Duration::ZERO, |rate| rate.time_for(bytes));
    network.rtt.saturating_add(bytes.max(network.rtt.saturating_mul(rounds)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// A page, whose style sheet is needed for its font, and a picture over the page's connection.
    const PAGE: &str = r#"
        schema = "longhaul.page/1"
        [[request]]
        id = "page"
        host = "a.example"
        path = "/"
        connection = 0
        response = { head = 200, body = 20000 }
        [[request]]
        id = "picture"
        host = "a.example"
        path = "/picture"
        connection = 0
        after = [{ head = "page" }]
        response = { head = 200, body = 1000 }
        [[request]]
        id = "style"
        host = "b.example"
        path = "/style"
        connection = 1
        after = [{ head = "page" }]
        compute = "5ms"
        response = { head = 200, body = 1000 }
        [[request]]
        id = "font"
        host = "b.example"
        path = "/font"
        after = [{ end = "style" }]
        response = { head = 200, body = 1000 }
    "#;

    fn page() -> Spec {
        Spec::parse(PAGE, Path::new("page.toml")).unwrap()
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn requests_that_do_not_delay_the_load_event_cost_nothing() {
        let late = "after = [{ end = \"font\" }]\ndelays_load = false\nresponse = { body = 1000000 }";
        let text = format!("{PAGE}\n[[request]]\nid = \"beacon\"\nhost = \"a.example\"\npath = \"/beacon\"\n{late}");
        let page = |text: &str| Spec::parse(text, Path::new("x.toml")).unwrap();
        let (with, without) = (page(&text), page(PAGE));
        let (rtt, rate) = (Duration::from_millis(100), Rate::bits_per_second(8_000_000));
        assert_eq!(with.floor(rtt, Some(rate)), without.floor(rtt, Some(rate)));
        assert_eq!((with.depth(), with.critical_path()), (without.depth(), without.critical_path()));
        assert!(with.timed()[..4].iter().all(|timed| *timed) && !with.timed()[4]);
    }

    #[test]
    fn floor_is_round_trips_and_bytes() {
        let page = page();
        assert_eq!(page.depth(), 3);
        assert_eq!(page.floor(ms(100), None), ms(300));
        assert_eq!(page.floor(ms(0), None), ms(0));
        // 23 800 bytes at a megabit take 190.4 ms, and the first of them comes after a round trip.
        let rate = Rate::bits_per_second(1_000_000);
        assert_eq!(page.floor(ms(10), Some(rate)), Duration::from_micros(200_400));
    }

    #[test]
    fn recorded_connections_cost_handshakes_and_slow_start() {
        let over = |handshake, initial_window| {
            let connections = Connections::Recorded { handshake, initial_window };
            page().schedule(&IdealNetwork { rtt: ms(100), rate: None, connections, has_processing: true })
        };
        let plain = over(1, None);
        // The page 200; the style sheet's connection, its request; the font has one of its own.
        assert_eq!((plain.load, plain.critical.clone(), plain.handshakes()), (ms(605), vec![0, 2, 3], 3));
        assert_eq!(over(0, None).load, ms(305));
        // The picture waits for the page's second round trip.
        let slow = over(1, Some(INITIAL_WINDOW));
        assert_eq!((slow.end[0], slow.sent[1], slow.sent[2]), (ms(300), ms(300), ms(305)));
        assert_eq!(slow.opened[2], Some(ms(205)));
    }

    #[test]
    fn think_time_delays_the_response_but_not_the_floor() {
        let mut page = page();
        let [before, after] = [Duration::ZERO, ms(70)].map(|think| {
            page.requests[2].response.think = think;
            let connections = Connections::Recorded { handshake: 1, initial_window: None };
            page.schedule(&IdealNetwork { rtt: ms(100), rate: None, connections, has_processing: true })
        });
        assert_eq!(after.first[2], before.first[2] + ms(70));
        assert_eq!((after.sent[3], after.load), (before.sent[3] + ms(70), before.load + ms(70)));
        assert_eq!((page.floor(ms(100), None), after.sent[2]), (ms(300), before.sent[2]));
    }

    #[test]
    fn computation_after_the_last_script_delays_the_load_event_but_not_the_floor() {
        let load = |content_type: &str| {
            let mut page = page();
            page.compute = ms(40);
            page.requests[2].response.content_type = Some(content_type.into());
            page.requests[3].after.clear();
            let connections = Connections::Recorded { handshake: 1, initial_window: None };
            let network = IdealNetwork { rtt: ms(100), rate: None, connections, has_processing: true };
            let schedule = page.schedule(&network);
            assert_eq!(page.floor(ms(100), None), ms(200));
            (schedule.load, schedule.critical)
        };
        assert_eq!(load("text/css"), (ms(405), vec![0, 2]));
        assert_eq!(load("text/javascript"), (ms(445), vec![0, 2]));
    }

    #[test]
    fn window_grows_only_as_far_as_used() {
        let request = |id: &str, body: u32, after: &str| {
            format!(
                "[[request]]\nid = \"{id}\"\nhost = \"a\"\npath = \"/{id}\"\nconnection = 0\n{after}\n\
                 response = {{ head = 100, body = {body} }}\n"
            )
        };
        let second = |first: u32| {
            let after = "after = [{ end = \"first\" }]";
            let text = request("first", first, "") + &request("second", 15_000, after);
            let page = Spec::parse(&format!("schema = \"longhaul.page/1\"\n{text}"), Path::new("page.toml")).unwrap();
            let connections = Connections::Recorded { handshake: 1, initial_window: Some(INITIAL_WINDOW) };
            let schedule = page.schedule(&IdealNetwork { rtt: ms(100), rate: None, connections, has_processing: true });
            (schedule.end[0], schedule.end[1])
        };
        assert_eq!(second(1000), (ms(200), ms(400)), "little leaves it as it was");
        assert_eq!(second(9000), (ms(200), ms(300)));
    }

    #[test]
    fn slow_start_doubles_the_window() {
        let network = IdealNetwork { rtt: ms(1), rate: None, connections: Connections::Open, has_processing: true };
        let rounds = [0, 1, 10, 11, 30, 31, 70, 71].map(|bytes| arrival(bytes, Some(10), &network).as_millis());
        assert_eq!(rounds, [1, 1, 1, 2, 2, 3, 3, 4]);
        assert!(arrival(u64::MAX, Some(1), &network) < ms(70));
    }
}
