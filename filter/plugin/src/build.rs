use bulk_reshuffle::engine::Build;

/// Describes the build of this module. `make build` sets the commit.
pub fn build() -> Build {
    let features = [("simd128", cfg!(target_feature = "simd128")), ("forced-trap", cfg!(feature = "forced-trap"))];
    Build {
        version: env!("CARGO_PKG_VERSION"),
        commit: option_env!("BULK_RESHUFFLE_COMMIT").filter(|commit| !commit.is_empty()).unwrap_or("unknown"),
        features: features.into_iter().filter(|(_, is_on)| *is_on).map(|(name, _)| name).collect(),
    }
}
