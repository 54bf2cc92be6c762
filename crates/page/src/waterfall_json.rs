//! The waterfall and the floors as JSON: schema `longhaul.page-show/1`.

use std::time::Duration;

use serde::Serialize;
use units::Rate;

use crate::{Spec, waterfall::recorded};

/// A page, and its times at several RTTs.
#[derive(Debug, Serialize)]
pub struct Document<'a> {
    schema: &'static str,
    name: &'a str,
    title: &'a str,
    hosts: usize,
    connections: usize,
    request_bytes: u64,
    response_bytes: u64,
    depth: usize,
    longest_chain: Vec<&'a str>,
    at: Vec<At<'a>>,
}

/// The page at one RTT.
#[derive(Debug, Serialize)]
struct At<'a> {
    rtt_ms: f64,
    floor_s: f64,
    http1_s: f64,
    fast_open_s: f64,
    critical_path: Vec<&'a str>,
    handshakes: usize,
    requests: Vec<Request<'a>>,
}

/// The times of a request over the recorded connections.
#[derive(Debug, Serialize)]
struct Request<'a> {
    id: &'a str,
    host: &'a str,
    path: &'a str,
    connection: Option<u32>,
    response_bytes: u64,
    ready_s: f64,
    opened_s: Option<f64>,
    sent_s: f64,
    first_s: f64,
    end_s: f64,
}

/// The data of `haul page show`, for each of `rtts`.
pub fn document<'a>(spec: &'a Spec, rtts: &[Duration], rate: Option<Rate>) -> Document<'a> {
    let ids = |indices: &[usize]| indices.iter().map(|index| spec.requests[*index].id.as_str()).collect();
    let at = rtts.iter().map(|rtt| {
        let plain = recorded(spec, *rtt, rate, 1);
        let requests = spec.requests.iter().enumerate().map(|(index, request)| Request {
            id: &request.id,
            host: &request.host,
            path: &request.path,
            connection: request.connection,
            response_bytes: request.response.size(),
            ready_s: plain.ready[index].as_secs_f64(),
            opened_s: plain.opened[index].map(|time| time.as_secs_f64()),
            sent_s: plain.sent[index].as_secs_f64(),
            first_s: plain.first[index].as_secs_f64(),
            end_s: plain.end[index].as_secs_f64(),
        });
        At {
            rtt_ms: rtt.as_secs_f64() * 1e3,
            floor_s: spec.floor(*rtt, rate).as_secs_f64(),
            http1_s: plain.load.as_secs_f64(),
            fast_open_s: recorded(spec, *rtt, rate, 0).load.as_secs_f64(),
            critical_path: ids(&plain.critical),
            handshakes: plain.handshakes(),
            requests: requests.collect(),
        }
    });
    Document {
        schema: "longhaul.page-show/1",
        name: &spec.name,
        title: &spec.title,
        hosts: spec.hosts().len(),
        connections: spec.connections(),
        request_bytes: spec.request_bytes(),
        response_bytes: spec.response_bytes(),
        depth: spec.depth(),
        longest_chain: ids(&spec.critical_path()),
        at: at.collect(),
    }
}
