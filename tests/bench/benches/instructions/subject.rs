use bulk_reshuffle_bench::routines::{Case, Load, ROUTINES, Routine, SERIES, Serving};

/// The thing to count. Command-line arguments name it for the process under valgrind.
#[derive(Debug, Clone)]
pub enum Subject {
    /// A routine, by its name.
    Routine(&'static str, Load),
    /// A case of a growth series, by the name of the series.
    Growth(&'static str, Case),
}

impl Subject {
    /// Returns the command-line arguments that name this subject.
    pub fn arguments(&self) -> Vec<String> {
        match self {
            Self::Routine(name, Load { requests, documents, bytes }) => {
                let numbers = [requests, documents, bytes].map(usize::to_string);
                std::iter::once((*name).to_owned()).chain(numbers).collect()
            }
            Self::Growth(series, case) => [*series, case.name].map(str::to_owned).to_vec(),
        }
    }

    /// Parses the arguments that [`arguments`](Self::arguments) returns.
    pub fn read(arguments: &[String]) -> Option<Self> {
        match arguments {
            [name, requests, documents, bytes] => {
                let (name, _) = ROUTINES.iter().find(|(found, _)| found == name)?;
                let (requests, documents) = (requests.parse().ok()?, documents.parse().ok()?);
                Some(Self::Routine(name, Load { requests, documents, bytes: bytes.parse().ok()? }))
            }
            [name, case] => {
                let series = SERIES.iter().find(|series| series.name == name)?;
                Some(Self::Growth(series.name, *series.cases.iter().find(|found| found.name == case)?))
            }
            _ => None,
        }
    }

    /// Makes the routine ready to run.
    pub fn routine(&self) -> Option<Box<dyn Routine>> {
        match self {
            Self::Routine(name, load) => {
                let (_, make) = ROUTINES.iter().find(|(found, _)| found == name)?;
                Some(make(*load))
            }
            Self::Growth(_, case) => Some(Box::new(Serving::new(case))),
        }
    }

    /// Returns the number of operations in one run.
    pub fn operations(&self) -> usize {
        match self {
            Self::Routine(_, load) => load.operations(),
            Self::Growth(_, case) => case.operations(),
        }
    }
}
