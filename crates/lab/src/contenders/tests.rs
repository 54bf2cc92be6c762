use super::*;
use crate::experiment::{Cell, Experiment, Known, Selection};

fn rclone() -> &'static Registered {
    all().iter().find(|registered| registered.name == "rclone").unwrap()
}

#[test]
fn names_are_unique_and_as_registered() {
    let names: std::collections::BTreeSet<_> = all().iter().map(|registered| registered.name).collect();
    assert_eq!(names.len(), all().len());
    for registered in all() {
        assert_eq!(registered.with(&Parameters::new()).unwrap().name(), registered.name);
    }
}

#[test]
fn claims_of_all_experiments_refer_to_planned_cells() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let (contenders, servers) = (known(), crate::servers::all());
    let servers: Vec<&str> = servers.iter().map(|server| server.name()).collect();
    let known = Known { contenders: &contenders, servers: &servers };
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(files.len() >= 4);
    for file in files {
        let experiment = Experiment::read(&file, known).unwrap_or_else(|mistake| panic!("{mistake}"));
        let plan = experiment.plan(&Selection::default()).unwrap();
        // Every cell of a claim is in the plan.
        for claim in &experiment.claims {
            for contender in claim.check.contenders() {
                let is = |cell: &Cell| {
                    cell.workload.name == claim.workload
                        && cell.network.name == claim.network
                        && cell.row.name() == *contender
                };
                assert!(plan.cells.iter().any(is), "{}: {}: {contender}", file.display(), claim.id);
            }
        }
    }
}

#[test]
fn changed_parameter_is_in_the_name() {
    let parameters = Parameters::from([("transfers".to_owned(), 32), ("checkers".to_owned(), 8)]);
    assert_eq!(rclone().with(&parameters).unwrap().name(), "rclone transfers=32");
}

#[test]
fn unknown_parameter_is_rejected() {
    let error = rclone().with(&Parameters::from([("transfer".to_owned(), 32)])).err().unwrap();
    assert_eq!(error.to_string(), "rclone has no parameter `transfer`; it has transfers, checkers");
}
