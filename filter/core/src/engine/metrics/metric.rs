use super::{Family, Label};
use crate::engine::pass_through::PassThrough;
use crate::routing::{Unrouted, UpstreamId, Upstreams};

/// Declares the metrics of one kind, each once: its variant, its family, a label whose value is fixed, and the type of
/// the values of another label.
macro_rules! metrics {
    (
        $(#[$attribute:meta])*
        $kind:ident;
        $(
            $(#[$more:meta])*
            $metric:ident $(($value:ident: $values:ty))? = $family:ident $(, $label:ident $fixed:literal)?;
        )*
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $kind {
            $($(#[$more])* $metric $(($values))?,)*
        }

        impl $kind {
            /// Returns its name, including its labels: `bulk_reshuffle_…_total.reason.X.upstream.Y.coordinator.Z`.
            pub fn name(self, upstreams: &$crate::routing::Upstreams) -> String {
                $crate::engine::metrics::metric::name(self.family(), &self.labels(upstreams))
            }

            /// Returns its family: the metrics that differ only in their label values.
            pub fn family(self) -> &'static $crate::engine::metrics::Family {
                match self {
                    $(Self::$metric { .. } => &$crate::engine::metrics::family::$family,)*
                }
            }

            fn labels(
                self,
                upstreams: &$crate::routing::Upstreams,
            ) -> Vec<($crate::engine::metrics::Label, String)> {
                let coordinator = $crate::engine::metrics::metric::coordinator(upstreams);
                match self {
                    $(Self::$metric $(($value))? => vec![
                        $(($crate::engine::metrics::Label::$label, $fixed.to_owned()),)?
                        $($crate::engine::metrics::metric::LabelValue::label($value, upstreams),)?
                        coordinator,
                    ],)*
                }
            }

            /// Returns all metrics of this kind, with these upstreams as labels.
            pub fn all(
                upstreams: impl IntoIterator<Item = $crate::routing::UpstreamId>,
            ) -> impl Iterator<Item = Self> {
                let _upstreams: Vec<_> = upstreams.into_iter().collect();
                let all = [$(metrics!(@all $metric, _upstreams $(, $values)?)),*];
                all.into_iter().flatten()
            }
        }
    };
    (@all $metric:ident, $upstreams:ident) => { vec![Self::$metric] };
    (@all $metric:ident, $upstreams:ident, $values:ty) => {
        <$values as $crate::engine::metrics::metric::LabelValue>::all(&$upstreams).map(Self::$metric).collect()
    };
}

/// The value of a label.
pub(super) trait LabelValue: Sized {
    /// Returns all possible values.
    fn all(upstreams: &[UpstreamId]) -> impl Iterator<Item = Self>;

    /// Returns the label with this value.
    fn label(self, upstreams: &Upstreams) -> (Label, String);
}

impl LabelValue for UpstreamId {
    fn all(upstreams: &[UpstreamId]) -> impl Iterator<Item = Self> {
        upstreams.iter().copied()
    }

    fn label(self, upstreams: &Upstreams) -> (Label, String) {
        (Label::Upstream, upstreams.name(self).to_string())
    }
}

impl LabelValue for PassThrough {
    fn all(_: &[UpstreamId]) -> impl Iterator<Item = Self> {
        Self::all()
    }

    fn label(self, _: &Upstreams) -> (Label, String) {
        (Label::Reason, self.name().to_owned())
    }
}

impl LabelValue for Unrouted {
    fn all(_: &[UpstreamId]) -> impl Iterator<Item = Self> {
        Self::all()
    }

    fn label(self, upstreams: &Upstreams) -> (Label, String) {
        PassThrough::Unrouted(self).label(upstreams)
    }
}

/// Returns the label that all metrics of a filter have in common. It is the last one, and no label's name may follow it:
/// its value may have dots.
pub(super) fn coordinator(upstreams: &Upstreams) -> (Label, String) {
    (Label::Coordinator, upstreams.name(UpstreamId::COORDINATOR).to_string())
}

/// Returns a metric's name followed by its labels, in the order of the family. Envoy's `stats_tags` extract them again.
pub(super) fn name(family: &Family, labels: &[(Label, String)]) -> String {
    labels.iter().fold(family.name.to_owned(), |name, (label, value)| format!("{name}.{}.{value}", label.name()))
}
