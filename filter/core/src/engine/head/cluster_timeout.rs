use std::time::Duration;

/// The longest `timeout` of a request that is split. It bounds how long a hostile client can keep a batch in flight.
const MAX_TIMEOUT: Duration = Duration::from_secs(600);

/// The time that a batch has after the cluster's own timeout, so that the cluster can still answer.
const MARGIN: Duration = Duration::from_secs(10);

/// Returns whether the value of the query parameter `timeout` is too long for a request that is split.
pub fn is_too_long(value: &str) -> bool {
    read(value).is_some_and(|timeout| timeout > MAX_TIMEOUT)
}

/// Returns the timeout of a batch with these headers: longer than usual if its query gives the cluster so much time to
/// wait for shards.
pub fn batch_timeout(headers: &[(String, String)], usual: Duration) -> Duration {
    let timeout = query(headers).split('&').find_map(|parameter| parameter.strip_prefix("timeout=")).and_then(read);
    timeout.map_or(usual, |timeout| usual.max(timeout.saturating_add(MARGIN)))
}

/// Returns the query of a caller's path.
pub fn query(caller: &[(String, String)]) -> &str {
    let path = caller.iter().find(|(name, _)| name == ":path").map_or("", |(_, path)| path.as_str());
    path.split_once('?').map_or("", |(_, query)| query)
}

/// Reads a `timeout`. Returns `None` for a value that a cluster refuses or that means no time. It reads -1 as the longest duration.
fn read(value: &str) -> Option<Duration> {
    if value == "-1" {
        return Some(Duration::MAX);
    }
    let (number, unit) = value.split_at(value.find(|character: char| !character.is_ascii_digit())?);
    let number = number.parse().ok()?;
    let seconds = |unit: u64| Duration::from_secs(unit.saturating_mul(number));
    match unit.to_ascii_lowercase().as_str() {
        "nanos" => Some(Duration::from_nanos(number)),
        "micros" => Some(Duration::from_micros(number)),
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(seconds(1)),
        "m" => Some(seconds(60)),
        "h" => Some(seconds(3600)),
        "d" => Some(seconds(86_400)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_units_of_clusters() {
        for (value, milliseconds) in [
            ("5ms", 5),
            ("75s", 75_000),
            ("2m", 120_000),
            ("2M", 120_000),
            ("1h", 3_600_000),
            ("1d", 86_400_000),
            ("0s", 0),
        ] {
            assert_eq!(read(value), Some(Duration::from_millis(milliseconds)), "{value}");
        }
        assert_eq!((read("7micros"), read("7nanos")), (Some(Duration::from_micros(7)), Some(Duration::from_nanos(7))));
        for value in ["", "0", "5", "s", "1.5s", "-1s", "1 s", "1w", "99999999999999999999s"] {
            assert_eq!(read(value), None, "{value}");
        }
    }

    #[test]
    fn a_batch_has_more_time_than_its_cluster() {
        let of =
            |path: &str| batch_timeout(&[(":path".to_owned(), path.to_owned())], Duration::from_secs(60)).as_secs();
        assert_eq!((of("/_bulk"), of("/_bulk?timeout=5s"), of("/_bulk?timeout=x")), (60, 60, 60));
        assert_eq!((of("/_bulk?timeout=1m"), of("/_bulk?refresh&timeout=75s")), (70, 85));
        assert!(is_too_long("601s") && is_too_long("-1") && is_too_long("9999999999999999d"));
        assert!(!is_too_long("10m") && !is_too_long("1w"));
    }
}
