use ring::digest::{Context, SHA256};

/// A number for a name or a mark that is stored, on disk or on a server: the same in every release, on every machine, and with
/// every compiler, which `std::hash` does not promise.
///
/// It is the first eight bytes (big-endian) of the SHA-256 of `purpose` and the parts, each behind its length in eight bytes
/// (big-endian). `purpose` says what the number is for, and in which version: whoever adds a part raises the version.
///
/// ```
/// assert_ne!(transport::stable_hash("example/1", &[&"ab", &"c"]), transport::stable_hash("example/1", &[&"a", &"bc"]));
/// ```
pub fn stable_hash(purpose: &str, parts: &[&dyn AsRef<[u8]>]) -> u64 {
    let mut context = Context::new(&SHA256);
    for part in std::iter::once(purpose.as_bytes()).chain(parts.iter().map(AsRef::as_ref)) {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    context.finish().as_ref().iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::stable_hash;

    /// Python: `hashlib.sha256(b''.join(len(part).to_bytes(8, 'big') + part for part in [purpose, *parts])).hexdigest()[:16]`.
    #[test]
    fn numbers_are_those_of_earlier_releases() {
        assert_eq!(stable_hash("example/1", &[]), 0xe93f_ec42_254b_e90e);
        assert_eq!(stable_hash("example/1", &[b""]), 0xd608_546a_b171_53ee);
        assert_eq!(stable_hash("example/1", &[&"ab", &"c"]), 0x1404_00c8_6a45_cae6);
    }
}
