//! The ways to the cluster that are compared.

use std::fmt;

use clap::ValueEnum;
use serde::Serialize;

/// The destination of requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Target {
    #[default]
    /// The nodes: each client sends to them round robin.
    Direct,
    /// The shipped Envoy without the filter, which sends to the nodes round robin.
    Plain,
    /// The shipped Envoy with the shipped filter, or with another build of it.
    Base,
    /// The shipped Envoy with the filter.
    Filter,
}

impl Target {
    /// Returns the name in options and raw numbers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Plain => "plain",
            Self::Base => "base",
            Self::Filter => "filter",
        }
    }

    /// Returns whether requests go through the filter.
    pub fn has_filter(self) -> bool {
        matches!(self, Self::Base | Self::Filter)
    }

    pub fn title(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Plain => "plain Envoy",
            Self::Base => "base filter",
            Self::Filter => "filter",
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}
