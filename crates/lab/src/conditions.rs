//! The conditions under which an experiment's source measured, beside those of a run: versions decide, and a sentence of 2019
//! is about the programs of 2019.

use crate::{
    experiment::{Experiment, SERVER},
    results::{Condition, ContenderRecord, Host, NetworkRecord},
};

/// The conditions that the source states, each beside the run's. `server` names the run's server.
pub(crate) fn conditions(
    experiment: &Experiment,
    networks: &[NetworkRecord],
    contenders: &[ContenderRecord],
    host: &Host,
    server: Option<&String>,
) -> Vec<Condition> {
    let network = |name: &str| networks.iter().find(|network| network.name == name).map(|one| one.description.clone());
    let model = |name: &str| {
        let is_model = experiment.contenders.iter().any(|row| row.contender == name && row.model);
        is_model.then(|| "a model of its requests".to_owned())
    };
    let ours = |about: &str| {
        if about == SERVER {
            let server = server?;
            return Some(format!("{server}: {}", host.tools.get(server).cloned().unwrap_or_default()));
        }
        let took_part = contenders.iter().any(|contender| contender.name == about);
        let program = || took_part.then(|| model(about).or_else(|| host.tools.get(about).cloned())).flatten();
        network(about).or_else(program)
    };
    let conditions = experiment.source.conditions.iter().map(|(about, theirs)| Condition {
        about: about.clone(),
        theirs: theirs.clone(),
        ours: ours(about).unwrap_or_else(|| "not part of this run".to_owned()),
    });
    conditions.collect()
}

#[cfg(test)]
mod tests {
    use crate::test_data::run;

    #[test]
    fn conditions_of_the_source_stand_beside_those_of_the_run() {
        let run = run(1, 1.0, &[]);
        let ours = |about: &str| {
            let condition = run.conditions.iter().find(|condition| condition.about == about).unwrap();
            assert!(!condition.theirs.is_empty());
            condition.ours.as_str()
        };
        assert_eq!(ours("article"), "18ms RTT, 100mbit, queue 150p");
        assert_eq!(ours("webdrive"), "a model of its requests");
        assert!(ours("server").starts_with("apache: "), "{}", ours("server"));
    }
}
