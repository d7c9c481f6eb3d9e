//! The ways to the cluster that are compared.

use std::fmt;

use clap::ValueEnum;
use serde::Serialize;

/// Where requests are sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Target {
    #[default]
    /// To the nodes, each client to one after the other.
    Direct,
    /// Through the shipped Envoy without the filter, which hands them to one node after the other.
    Plain,
    /// Through the shipped Envoy with the filter as shipped, or with another build of it.
    Base,
    /// Through the shipped Envoy.
    Filter,
}

impl Target {
    /// As in options and raw numbers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Plain => "plain",
            Self::Base => "base",
            Self::Filter => "filter",
        }
    }

    /// Whether requests go through the filter.
    pub fn has_filter(self) -> bool {
        matches!(self, Self::Base | Self::Filter)
    }

    /// For people.
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
