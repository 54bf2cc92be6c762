//! Suggests the name that was probably meant, for an unknown one.

use strsim::damerau_levenshtein;

/// The name nearest to `wrong`, if any: up to a third of its letters, but at least two, may differ.
pub fn nearest<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let bound = (wrong.chars().count() / 3).max(2);
    let wrong = wrong.to_lowercase();
    names
        .into_iter()
        .map(|name| (damerau_levenshtein(&wrong, &name.to_lowercase()), name))
        .filter(|(distance, name)| *distance <= bound && *distance < name.chars().count())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// The end of an error message about an unknown name: the nearest name, or all names.
pub(crate) fn advice<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match nearest(wrong, names.clone()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => match names.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>() {
            names if names.is_empty() => "there are none".to_owned(),
            names => format!("available: {}", names.join(", ")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_name_is_suggested() {
        let names = ["rclone", "davfs2", "davfs2-nolocks", "curl"];
        assert_eq!(nearest("rclon", names), Some("rclone"));
        assert_eq!(nearest("Davfs", names), Some("davfs2"));
        assert_eq!(nearest("davfs2-nolock", names), Some("davfs2-nolocks"));
        assert_eq!(nearest("gvfs-mount", names), None);
        assert_eq!(nearest("x", ["a"]), None);
        assert_eq!(advice("gvfs-mount", ["curl", "rclone"]), "available: `curl`, `rclone`");
    }
}
