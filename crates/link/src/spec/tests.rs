use std::{
    any::{Any, TypeId},
    io::Write,
    time::{Duration, Instant},
};

use super::*;
use crate::{
    chain::{Chain, Output},
    packet::Packet,
};

fn spec(toml: &str) -> LinkSpec {
    toml::from_str(toml).unwrap_or_else(|error| panic!("{error}"))
}

/// What the stages on the way up are.
fn names(spec: &LinkSpec) -> Vec<&'static str> {
    let kinds = [
        (TypeId::of::<Mtu>(), "mtu"),
        (TypeId::of::<RateLimit>(), "rate"),
        (TypeId::of::<Delay>(), "delay"),
        (TypeId::of::<Jitter>(), "jitter"),
        (TypeId::of::<GilbertElliott>(), "loss"),
        (TypeId::of::<Reorder>(), "reorder"),
        (TypeId::of::<Duplicate>(), "duplicate"),
        (TypeId::of::<Corrupt>(), "corrupt"),
    ];
    let name = |stage: Box<dyn Stage>| {
        let stage: Box<dyn Any> = stage;
        kinds.iter().find(|(kind, _)| *kind == (*stage).type_id()).map_or("middlebox", |(_, name)| name)
    };
    spec.lanes().unwrap().up.stages.into_iter().map(name).collect()
}

const FULL: &str = r#"
    rtt = "140ms"
    jitter = "2ms normal"
    rate = "20mbit/100mbit"
    queue = "codel"
    loss = "ge:p=1%,r=20%"
    reorder = "1%"
    duplicate = "0.5%"
    corrupt = "0.01%"
    mtu = 1400
    middlebox = ["hold-acks", "strip-tfo", "reset:syn=3,at=client"]
    seed = 7
"#;

#[test]
fn toml_round_trips() {
    let full = spec(FULL);
    assert_eq!(spec(&toml::to_string(&full).unwrap()), full);
    assert_eq!(spec(""), LinkSpec::default());
    assert_eq!(spec(&toml::to_string(&LinkSpec::default()).unwrap()), LinkSpec::default());
}

#[test]
fn display_is_one_line_for_people() {
    assert_eq!(LinkSpec::default().to_string(), "cable without delay");
    let article = "rtt = '18ms'\nrate = '100mbit'\nloss = '0.1%'\nmiddlebox = ['strip-tfo']";
    assert_eq!(spec(article).to_string(), "18ms RTT, 100mbit, queue 150p, loss 0.1%, strip-tfo");
    assert_eq!(
        spec(FULL).to_string(),
        "140ms RTT, jitter 2ms normal, 20mbit/100mbit, queue codel, loss ge:p=1%,r=20%,bad=100%,good=0%, \
         reorder 1% 1ms, duplicate 0.5%, corrupt 0.01%, MTU 1400, hold-acks, strip-tfo, reset:syn=3,at=client, seed 7"
    );
    assert_eq!(
        spec("rtt = '140ms'\nrate = '20mbit/100mbit'").to_string(),
        "140ms RTT, 20mbit/100mbit, queue 234p/1167p"
    );
}

#[test]
fn stages_are_in_the_order_of_the_path() {
    assert_eq!(names(&LinkSpec::default()), ["delay"]);
    let link = ["mtu", "rate", "delay", "jitter", "loss", "reorder", "duplicate", "corrupt"];
    assert_eq!(names(&spec(FULL)), [&["middlebox"; 2], &link[..], &["middlebox"]].concat());
}

#[test]
fn returned_packets_enter_just_after_their_element() {
    let element = |up: bool, down: bool| {
        let stage = |there: bool| there.then(|| Box::new(Delay::new(Duration::ZERO)) as Box<dyn Stage>);
        Element { up: stage(up), down: stage(down) }
    };
    let elements = vec![element(true, true), element(true, false), element(false, true), element(true, true)];
    let lanes = Lanes::of(elements);
    // Up: elements 0, 1, 3; down: elements 3, 2, 0.
    assert_eq!((lanes.up.back, lanes.down.back), (vec![3, 2, 1], vec![3, 2, 1]));
}

#[test]
fn errors_name_the_line_and_the_mistake() {
    let error = |toml: &str| toml::from_str::<LinkSpec>(toml).unwrap_err().to_string();
    assert!(error("seed = 1\nrtt = '18'").contains("line 2") && error("rtt = '18'").contains("`18` is not a time"));
    assert!(error("delay = '18ms'").contains("unknown field `delay`"));
    assert!(error("middlebox = ['strip-tof']").contains("did you mean `strip-tfo`"));
    let error = |toml: &str| spec(toml).elements().err().unwrap().to_string();
    assert!(error("queue = '10p'").contains("give a rate"));
    assert!(error("rate = '1mbit'\ntrace_up = 'a'\ntrace_down = 'b'").contains("no effect"));
    assert!(error("trace_up = '/nowhere/at/all'").contains("/nowhere/at/all"));
}

/// The times in ms at which a packet leaves that is sent at once, up and down; `None` if it is lost.
fn arrivals(spec: &LinkSpec) -> [Option<u128>; 2] {
    let Lanes { up, down } = spec.lanes().unwrap();
    [up, down].map(|lane| {
        let (start, mut output) = (Instant::now(), Output::default());
        let mut chain = Chain::new(lane.stages);
        chain.push(0, Packet::new(vec![0; 100]), start, &mut output);
        chain.run(start + Duration::from_secs(10), &mut output);
        output.delivered.first().map(|(at, _)| (*at - start).as_millis())
    })
}

#[test]
fn each_direction_has_its_own_delay_and_loss() {
    assert_eq!(arrivals(&spec("rtt = '18ms'")), [Some(9), Some(9)]);
    assert_eq!(arrivals(&spec("rtt = '10ms/30ms'")), [Some(10), Some(30)]);
    assert_eq!(arrivals(&spec("loss = '100%/0%'")), [None, Some(0)]);
    assert_eq!(arrivals(&spec("loss = '0%/100%'")), [Some(0), None]);
    let [up, down] = arrivals(&spec("rtt = '2ms'\njitter = '0ms/900ms'"));
    assert_eq!(up, Some(1));
    assert!(down > Some(5), "{down:?}");
    let asymmetric = spec("rtt = '10ms/30ms'\nrate = '120mbit'");
    assert_eq!(asymmetric.to_string(), "10ms/30ms RTT, 120mbit, queue 400p", "the queue holds the whole RTT");
}

#[test]
fn files_replace_jitter_and_loss_of_their_direction() {
    let file = |text: &str| {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    };
    let (delays, losses) = (file("40ms\n"), file("1\n"));
    let mut link = spec("rtt = '2ms'\njitter = '0ms'\nloss = '0%/100%'");
    link.delays_down = Some(delays.path().to_owned());
    link.loss_trace_down = Some(file("0\n").into_temp_path().keep().unwrap());
    assert_eq!(arrivals(&link), [Some(1), Some(41)]);
    std::fs::remove_file(link.loss_trace_down.replace(losses.path().to_owned()).unwrap()).unwrap();
    assert_eq!(arrivals(&link), [Some(1), None]);
    assert!(link.to_string().contains(&format!("delays {} down", delays.path().display())), "{link}");
    let error = |link: &LinkSpec| link.lanes().err().unwrap().to_string();
    link.loss_trace_up = link.loss_trace_down.clone();
    assert!(error(&link).contains("the loss `0%/100%` has no effect"), "{}", error(&link));
    let wrong = file("0\n2\n");
    link.loss_trace_up = Some(wrong.path().to_owned());
    link.loss = None;
    assert!(error(&link).starts_with(&format!("{}:2: `2` is neither", wrong.path().display())));
    link.delays_up = Some(wrong.path().to_owned());
    assert!(error(&link).contains("the jitter `0ms` has no effect"));
    link.jitter = None;
    assert!(error(&link).starts_with(&format!("{}:2: `2` is not a delay", wrong.path().display())));
    link.delays_up = Some("/nowhere/at/all".into());
    assert!(error(&link).starts_with("cannot read the file of delays /nowhere/at/all: "));
}

#[test]
fn large_mtu_is_that_of_the_devices() {
    assert_eq!(
        ["", "mtu = 576", "mtu = 9000", "mtu = 65535"].map(|text| spec(text).device_mtu()),
        [1500, 1500, 9000, 65535]
    );
    let jumbo = spec("rtt = '100ms'\nrate = '1gbit'\nmtu = 9000");
    assert!(jumbo.to_string().contains("queue 1389p"), "{jumbo}");
}

#[test]
fn trace_replaces_the_rate_of_its_direction() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"1\n2\n").unwrap();
    let mut traced = spec("rate = '5mbit'");
    traced.trace_down = Some(file.path().to_owned());
    assert_eq!((names(&traced), traced.lanes().unwrap().down.stages.len()), (vec!["rate", "delay"], 2));
    traced.rate = None;
    let link = traced.bottleneck().unwrap().unwrap();
    assert!(link.up.is_none() && link.down.is_some());
    file.write_all(b"x").unwrap();
    let error = traced.elements().err().unwrap().to_string();
    assert!(error.contains("not a Mahimahi trace: line 3 is `x`"), "{error}");
}
