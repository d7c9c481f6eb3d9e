/// Declares the reasons of one kind, each once: its variant, its name in metrics, and its meaning for people, which is
/// also the variant's documentation. With `or`, the reasons of another kind are among them.
macro_rules! reasons {
    (
        $(#[$attribute:meta])*
        $kind:ident $(or $other:ident)?;
        $($(#[$more:meta])* $reason:ident = $name:literal, $text:literal;)*
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $kind {
            $(
                #[doc = $text]
                $(#[$more])*
                $reason,
            )*
            $(
                #[doc = concat!("A reason of [`", stringify!($other), "`].")]
                $other($other),
            )?
        }

        impl $kind {
            /// Returns all reasons.
            pub fn all() -> impl Iterator<Item = Self> {
                [$(Self::$reason),*].into_iter()$(.chain($other::all().map(Self::$other)))?
            }

            /// Returns the name in metrics.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$reason => $name,)*
                    $(Self::$other(why) => why.name(),)?
                }
            }

            /// Returns the meaning, in a sentence or two.
            pub fn text(self) -> &'static str {
                match self {
                    $(Self::$reason => $text,)*
                    $(Self::$other(why) => why.text(),)?
                }
            }
        }
    };
}
