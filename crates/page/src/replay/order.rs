//! The order of a page's requests: which ones may be sent now. It uses no sockets and no clock.
//!
//! A request waits for its dependencies; then its computation takes time, perhaps none; then it may be sent. If
//! recorded connections are kept, a request is also sent only after those before it on its connection. The caller must
//! keep the order of a connection's requests as given. If not, what a document's `<head>` holds back is held back here
//! ([`crate::Hold`]).

use std::{collections::BTreeMap, time::Duration};

use super::held::Held;
use crate::{Spec, Until};

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Wait this long, then call [`Order::computed`].
    Compute(Computation, Duration),
    /// Send this request.
    Send(usize),
}

/// What takes time on the processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Computation {
    /// What is done before this request.
    Before(usize),
    /// What the scripts of a `<head>` do before those that they hold back: the number of the group.
    Head(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// For this many other requests.
    WaitsFor(usize),
    Computing,
    Ready,
    Sent,
    Ended,
}

/// A request that waits for another one.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    index: usize,
    /// The number of body bytes that it waits for; none: all.
    bytes: Option<u64>,
}

/// The progress of a load.
#[derive(Debug)]
pub struct Order {
    states: Vec<State>,
    computes: Vec<Duration>,
    /// For each request, those that still wait for it.
    waiting: Vec<Vec<Waiting>>,
    /// The next request on the same connection.
    next: Vec<Option<usize>>,
    /// The request before it on the same connection.
    before: Vec<Option<usize>>,
    held: Held,
    left: usize,
}

impl Order {
    /// A new load, and its first actions. `recorded`: requests keep their recorded connections.
    pub fn new(spec: &Spec, recorded: bool) -> (Self, Vec<Action>) {
        let count = spec.requests.len();
        let mut waiting = vec![Vec::new(); count];
        let (mut next, mut before, mut last) = (vec![None; count], vec![None; count], BTreeMap::new());
        for (index, request) in spec.requests.iter().enumerate() {
            for after in &request.after {
                let bytes = match after.until {
                    Until::Head(_) => Some(after.until.body_bytes(&spec.requests[after.request].response)),
                    Until::End => None,
                };
                waiting[after.request].push(Waiting { index, bytes });
            }
            if let Some(number) = request.connection.filter(|_| recorded)
                && let Some(earlier) = last.insert(number, index)
            {
                next[earlier] = Some(index);
                before[index] = Some(earlier);
            }
        }
        let states = spec.requests.iter().map(|request| State::WaitsFor(request.after.len())).collect();
        let computes = spec.requests.iter().map(|request| request.compute).collect();
        // On recorded connections, the order is the recorded one.
        let held = if recorded { Held::default() } else { Held::new(spec) };
        let mut order = Self { states, computes, waiting, next, before, held, left: count };
        let first: Vec<usize> = (0..count).filter(|index| order.states[*index] == State::WaitsFor(0)).collect();
        let actions = first.into_iter().flat_map(|index| order.start_computation(index)).collect();
        (order, actions)
    }

    /// The head of a response and so many bytes of its body have arrived.
    pub fn received(&mut self, request: usize, bytes: u64) -> Vec<Action> {
        self.release(request, |waiting| waiting.bytes.is_some_and(|enough| enough <= bytes))
    }

    /// A response is complete.
    pub fn ended(&mut self, request: usize) -> Vec<Action> {
        if std::mem::replace(&mut self.states[request], State::Ended) == State::Ended {
            return Vec::new();
        }
        self.left -= 1;
        let mut actions = self.release(request, |_| true);
        for (group, time) in self.held.ended(request) {
            actions.extend(self.start(Computation::Head(group), time));
        }
        actions.extend(self.send_free());
        actions
    }

    /// A computation is done.
    pub fn computed(&mut self, what: Computation) -> Vec<Action> {
        match what {
            Computation::Before(request) => {
                self.states[request] = State::Ready;
                if self.held.hold(request) { Vec::new() } else { self.send(request) }
            }
            Computation::Head(group) => {
                self.held.lift(group);
                self.send_free()
            }
        }
    }

    /// Sends those that are no longer held back.
    fn send_free(&mut self) -> Vec<Action> {
        let mut actions = Vec::new();
        while let Some(request) = self.held.free() {
            actions.extend(self.send(request));
        }
        actions
    }

    /// Sends a request that is ready, and those behind it on its connection that are.
    fn send(&mut self, request: usize) -> Vec<Action> {
        let mut actions = Vec::new();
        let mut at = Some(request);
        while let Some(index) = at.filter(|index| self.may_send(*index)) {
            self.states[index] = State::Sent;
            self.held.sent(index);
            actions.push(Action::Send(index));
            at = self.next[index];
        }
        actions
    }

    /// Whether all responses are complete.
    pub fn is_done(&self) -> bool {
        self.left == 0
    }

    fn may_send(&self, index: usize) -> bool {
        let sent = |before: usize| matches!(self.states[before], State::Sent | State::Ended);
        self.states[index] == State::Ready && self.before[index].is_none_or(sent)
    }

    fn release(&mut self, request: usize, enough: impl Fn(&Waiting) -> bool) -> Vec<Action> {
        let freed: Vec<Waiting> = self.waiting[request].extract_if(.., |waiting| enough(waiting)).collect();
        let mut actions = Vec::new();
        for Waiting { index, .. } in freed {
            if let State::WaitsFor(others) = &mut self.states[index] {
                *others -= 1;
                if *others == 0 {
                    actions.extend(self.start_computation(index));
                }
            }
        }
        actions
    }

    /// A request has no open dependencies left.
    fn start_computation(&mut self, index: usize) -> Vec<Action> {
        self.states[index] = State::Computing;
        self.start(Computation::Before(index), self.computes[index])
    }

    fn start(&mut self, what: Computation, time: Duration) -> Vec<Action> {
        if time.is_zero() { self.computed(what) } else { vec![Action::Compute(what, time)] }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spec(text: &str) -> Spec {
        Spec::parse(&format!("schema = \"longhaul.page/1\"\ntitle = \"t\"\n{text}"), "t.toml".as_ref()).unwrap()
    }

    fn request(id: &str, rest: &str) -> String {
        format!(
            "[[request]]\nid = \"{id}\"\nhost = \"a\"\npath = \"/{id}\"\nresponse = {{ head = 300, body = 9000 }}\n{rest}\n"
        )
    }

    #[test]
    fn request_waits_for_heads_ends_and_computation() {
        let text = request("page", "")
            + &request("early", "after = [{ head = \"page\", bytes = 4000 }]")
            + &request("late", "after = [{ end = \"page\" }]\ncompute = \"5ms\"");
        let (mut order, first) = Order::new(&spec(&text), true);
        assert_eq!(first, [Action::Send(0)]);
        assert_eq!(order.received(0, 3699), []);
        assert_eq!(order.received(0, 3700), [Action::Send(1)], "the head's 300 bytes count");
        assert_eq!(order.received(0, 9000), [], "nobody is sent twice");
        assert_eq!(order.ended(0), [Action::Compute(Computation::Before(2), Duration::from_millis(5))]);
        assert_eq!(order.computed(Computation::Before(2)), [Action::Send(2)]);
        assert!(!order.is_done());
        order.ended(1);
        order.ended(2);
        assert!(order.is_done());
    }

    #[test]
    fn requests_keep_their_order_on_a_recorded_connection() {
        let text = request("page", "connection = 0")
            + &request("slow", "connection = 1\nafter = [{ end = \"page\" }]")
            + &request("quick", "connection = 1");
        let (mut order, first) = Order::new(&spec(&text), true);
        assert_eq!(first, [Action::Send(0)]);
        assert_eq!(order.ended(0), [Action::Send(1), Action::Send(2)]);
        let (_, first) = Order::new(&spec(&text), false);
        assert_eq!(first, [Action::Send(0), Action::Send(2)], "any connection will do");
    }

    #[test]
    fn head_holds_back_what_is_less_important() {
        let hold =
            |priority| format!("hold = {{ priority = \"{priority}\", behind = [\"script\"], compute = \"9ms\" }}");
        let names = ["medium-1", "medium-2", "medium-3", "low-1", "low-2"];
        let waiting: String = names.map(|name| request(name, &hold(name.split('-').next().unwrap()))).concat();
        let text = request("script", "") + &request("high", "") + &waiting;
        let (mut order, first) = Order::new(&spec(&text), false);
        assert_eq!(first, [0, 1, 2, 3].map(Action::Send), "two of medium importance, besides");
        assert_eq!(order.ended(1), [], "it is nothing to those");
        assert_eq!(order.ended(2), [Action::Send(4)]);
        assert_eq!(order.ended(3), [], "the script and one of medium importance are two");
        assert_eq!(order.ended(4), [Action::Send(5)]);
        let lifted = Computation::Head(0);
        assert_eq!(order.ended(0), [Action::Compute(lifted, Duration::from_millis(9)), Action::Send(6)]);
        order.computed(lifted);
        assert!(!order.is_done());
        order.ended(5);
        order.ended(6);
        assert!(order.is_done());

        let (mut order, _) = Order::new(&spec(&text), false);
        order.ended(0);
        assert_eq!(order.computed(lifted), [4, 5, 6].map(Action::Send), "all at once after the computation");
        let (_, first) = Order::new(&spec(&text), true);
        assert_eq!(first.len(), 7, "recorded connections have the recorded order");
    }

    proptest! {
        /// For random dependencies, each request is sent once, after all that it waits for.
        #[test]
        fn each_request_is_sent_once_after_its_dependencies(
            waits in prop::collection::vec(
                (0usize..20, any::<bool>(), 0u64..9000, 0u32..4, any::<bool>(), prop::option::of((0usize..20, any::<bool>()))),
                1..20,
            ),
            recorded: bool,
        ) {
            let text: String = waits.iter().enumerate().map(|(at, (on, end, bytes, connection, computes, held))| {
                let after = match (at, end) {
                    (0, _) => String::new(),
                    (_, true) => format!("after = [{{ end = \"r{}\" }}]\n", on % at),
                    (_, false) => format!("after = [{{ head = \"r{}\", bytes = {} }}]\n", on % at, bytes.max(&1)),
                };
                let compute = if *computes { "compute = \"1ms\"\n" } else { "" };
                let hold = held.filter(|(by, _)| by % waits.len() != at).map(|(by, low)| {
                    let priority = if low { "low" } else { "medium" };
                    format!("hold = {{ priority = \"{priority}\", behind = [\"r{}\"] }}\n", by % waits.len())
                });
                let hold = hold.unwrap_or_default();
                request(&format!("r{at}"), &format!("{after}connection = {connection}\n{compute}{hold}"))
            }).collect();
            let spec = spec(&text);
            let (mut order, mut todo) = Order::new(&spec, recorded);
            let (mut sent, mut ended) = (Vec::new(), vec![false; spec.requests.len()]);
            while let Some(action) = todo.pop() {
                let more = match action {
                    Action::Compute(what, _) => order.computed(what),
                    Action::Send(index) => {
                        prop_assert!(!sent.contains(&index));
                        sent.push(index);
                        for after in &spec.requests[index].after {
                            prop_assert!(after.until != Until::End || ended[after.request]);
                        }
                        let mut more = order.received(index, spec.requests[index].response.body.len());
                        ended[index] = true;
                        more.extend(order.ended(index));
                        more
                    }
                };
                todo.extend(more);
            }
            prop_assert!(order.is_done());
            prop_assert_eq!(sent.len(), spec.requests.len());
        }
    }
}
